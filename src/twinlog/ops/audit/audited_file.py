"""The file of an audit: its flows, from files or from a running worker, and its keys that MirrorMaker 2 ignores."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from twinlog.clock import Clock
from twinlog.config.connector import build_connector, connector_kind
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.scope import GUESS
from twinlog.config.worker import load_worker
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.ops.audit.report import AuditPart, Finding, PartResult, Severity
from twinlog.ops.connectors.rest import ConnectRest, TlsFiles, access

_PLACE = re.compile(r"(?P<place>\S+:\d+): (?P<rest>.*)", re.DOTALL)
_UNKNOWN = "an unknown key, ignored"
_MISPLACED = " is ignored here; "
_ONLY_HERE = ("these keys are ignored here", "no effect here")
"""Warnings about keys that MirrorMaker 2 or its JVM reads, and twinlog ignores."""


def keys_found(warnings: Sequence[str]) -> PartResult:
    """A finding for each warning of the check of a file that is true for MirrorMaker 2, too."""
    found = [_finding(text) for text in warnings if not any(words in text for words in _ONLY_HERE)]
    return PartResult(AuditPart.KEYS, tuple(found), "the whole file")


def _finding(text: str) -> Finding:
    """The text before its way out, which follows `; ` or `expected `."""
    if _UNKNOWN in text:
        what, _, expected = text.partition(f"{_UNKNOWN}; expected ")
        guessed = expected.rpartition(GUESS)[2].strip(" ?)") if GUESS in expected else ""
        way = f"write {guessed}" if guessed else f"remove it, or write {expected}"
        severity = Severity.WARNING if guessed else Severity.NOTE
        return _of(severity, f"{what.rstrip(': ')} is an unknown key, which MirrorMaker 2 ignores", way)
    if _MISPLACED in text:
        what, _, way = text.partition(_MISPLACED)
        return _of(Severity.WARNING, f"{what} is ignored at this place by MirrorMaker 2, too", way)
    what, _, way = text.rpartition("; ")
    if not what:
        return _of(Severity.WARNING, text, "see docs/configuration.md for the key")
    return _of(Severity.WARNING, what, way)


def _of(severity: Severity, text: str, way: str) -> Finding:
    place = _PLACE.fullmatch(text)
    shown = text if place is None else f"{place['place']}: {place['rest']}"
    return Finding("ignored-key", severity, AuditPart.KEYS, shown, way)


def read_running(worker: Path, url: str, note: Callable[[str], None], clock: Clock) -> FlowsOfFile:
    """The flows of the connectors that the worker at `url` has; `worker` is its file, for the places of its state.

    Connectors of other classes are left out, and so are disabled connectors. Raises ConfigError for a wrong file or
    address, and TwinlogError when the worker fails to answer.
    """
    if kind_of(worker) is not FileKind.WORKER:
        expected = "the file of a Connect worker beside --url, for example connect-distributed.properties"
        raise ConfigError([ConfigProblem(str(worker), None, "(file)", "another kind of file", expected)])
    config = load_worker(worker)
    rest = ConnectRest(access(url, TlsFiles(), warn=note), note, clock=clock)
    answer = rest.get("connectors", expand="info")
    flows, warnings, problems = [], list(config.warnings), []
    for name, known in sorted(dict(answer or {}).items()):
        written = {key: str(value) for key, value in known["info"]["config"].items() if value is not None}
        if connector_kind(written.get("connector.class", "")) is None:
            continue
        try:
            built = build_connector(name, written, config)
        except ConfigError as error:
            problems += [ConfigProblem(name, None, one.key, one.found, one.expected) for one in error.problems]
            continue
        warnings += built.warnings
        if not built.idle:
            flows.append(built.settings)
    if problems:
        raise ConfigError(problems, warnings)
    if not flows:
        expected = "connectors of MirrorMaker 2 that are enabled"
        raise ConfigError([ConfigProblem(rest.access.url, None, "(connectors)", "none of them", expected)])
    return FlowsOfFile(flows, config.settings, tuple(dict.fromkeys(warnings)))
