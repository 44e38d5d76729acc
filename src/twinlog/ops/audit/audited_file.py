"""The file of an audit: its flows, from files or from a running worker, and its keys that MirrorMaker 2 ignores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from twinlog.clock import Clock
from twinlog.config.connector import build_connector, connector_kind
from twinlog.config.differences import differences
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.key import Release
from twinlog.config.keys.scope import GUESS
from twinlog.config.load import load_file
from twinlog.config.text.entries import IGNORED_HERE
from twinlog.config.worker import load_worker
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import ConfigError
from twinlog.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.ops.audit.report import AuditPart, Finding, PartResult, Severity
from twinlog.ops.connectors.rest import ConnectRest, TlsFiles, access

_ONLY_HERE = frozenset({MistakeKind.IGNORED_FIELDS})
"""Warnings about keys that MirrorMaker 2 or its JVM reads, and twinlog ignores; they have no key of their own."""


def keys_found(warnings: Sequence[ConfigWarning]) -> PartResult:
    """A finding for each warning of the check of a file that is true for MirrorMaker 2, too."""
    found = [_finding(one) for one in warnings if one.key and one.kind not in _ONLY_HERE]
    return PartResult(AuditPart.KEYS, tuple(found), "the whole file")


def release_found(file: Path, was: Release) -> PartResult:
    """A note for each difference from MirrorMaker 2 of the release `was`, by the code of `twinlog check --was`."""
    found = []
    for note in differences(load_file(file, unknown_keys="warn"), was):
        text, _, way = note.sentence.rpartition("; ")
        way = way if text else "for information; docs/configuration.md describes the key"
        shown = f"{note.place}: {note.key}: {text or note.sentence}"
        found.append(Finding("change", Severity.NOTE, AuditPart.CHANGES, shown, way))
    return PartResult(AuditPart.CHANGES, tuple(found), f"MirrorMaker 2 of Kafka {was[0]}.{was[1]}")


def _finding(warning: ConfigWarning) -> Finding:
    place = f"{warning.place}: {warning.key}"
    if warning.kind is MistakeKind.UNKNOWN_KEY:
        guessed = warning.expected.partition(f"{GUESS} ")[2].partition("?")[0]
        way = f"write {guessed}" if guessed else "remove it"
        severity = Severity.WARNING if guessed else Severity.NOTE
        return _of(warning, severity, f"{place} is an unknown key, which MirrorMaker 2 ignores", way)
    text, _, way = warning.sentence.partition("; ")
    if warning.kind is MistakeKind.IGNORED and text == IGNORED_HERE:
        return _of(warning, Severity.WARNING, f"{place} is ignored at this place by MirrorMaker 2, too", way)
    return _of(warning, Severity.WARNING, f"{place}: {text}", way or "see docs/configuration.md for the key")


def _of(warning: ConfigWarning, severity: Severity, text: str, way: str) -> Finding:
    return Finding("ignored-key", severity, AuditPart.KEYS, text, way, cause=warning.id)


def read_running(worker: Path, url: str, note: Callable[[str], None], clock: Clock) -> FlowsOfFile:
    """The flows of the connectors that the worker at `url` has; `worker` is its file, for the places of its state.

    Connectors of other classes are left out, and so are disabled connectors. Raises ConfigError for a wrong file or
    address, and TwinlogError when the worker fails to answer.
    """
    if kind_of(worker) is not FileKind.WORKER:
        expected = "the file of a Connect worker beside --url, for example connect-distributed.properties"
        raise ConfigError(
            [ConfigProblem(str(worker), None, "", "another kind of file", expected, MistakeKind.OTHER_PROGRAM)]
        )
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
            problems += [replace(one, file=name, line=None) for one in error.problems]
            continue
        warnings += built.warnings
        if not built.idle:
            flows.append(built.settings)
    if problems:
        raise ConfigError(problems, warnings)
    if not flows:
        expected = "connectors of MirrorMaker 2 that are enabled"
        raise ConfigError(
            [ConfigProblem(rest.access.url, None, "", "no such connector", expected, MistakeKind.NOTHING_RUNS)]
        )
    return FlowsOfFile(flows, config.settings, tuple(dict.fromkeys(warnings)))
