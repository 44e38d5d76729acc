"""The files of a command: flows of any file that `check` reads, and the files of a worker's connectors.

Commands for flows of other processes read only flows. The files of connectors are checked before anything starts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config import load
from twinlog.config.connector import ConnectorFile, build_connector, line_of, read_connector_file
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.key import UnknownKeys
from twinlog.config.text.entries import refuse_useless
from twinlog.config.worker import WorkerConfig, load_worker
from twinlog.errors import ConfigError, RequestError
from twinlog.errors.message_ids import split_id
from twinlog.errors.mistakes import MISSING, ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings
from twinlog.worker.connectors.model import VERSION

_INVALID = re.compile(r"Invalid value (.*) for configuration [^:]*: (?:expected )?(.*)", re.DOTALL)


def read_connectors(
    paths: Sequence[Path], worker: WorkerConfig, *, nameless: bool = False, lenient: bool = False
) -> tuple[list[ConnectorFile], list[ConfigWarning]]:
    """The connectors of the files at `paths`, in their order, and warnings about them.

    A `nameless` connector, for example the body of a PUT, is called by its file. Raises ConfigError with the problems
    of all connectors: problems that a worker would refuse, equal names, and names that no topic can have; the last
    are warnings if `lenient`. Works offline.
    """
    found: dict[str, ConnectorFile] = {}
    problems: list[ConfigProblem] = []
    warnings: list[ConfigWarning] = []
    for path in paths:
        try:
            connector = _read(path, nameless)
            if connector.name in found:
                raise ConfigError(
                    [_problem(path, "name", repr(connector.name), "another name than in the files before")]
                )
            warnings += _check(path, connector, worker)
        except ConfigError as error:
            problems += error.problems
            warnings += error.warnings
        else:
            found[connector.name] = connector
    if not lenient:
        refuse_useless(problems, warnings)
    if problems:
        raise ConfigError(problems, warnings)
    return list(found.values()), warnings


def _read(path: Path, nameless: bool) -> ConnectorFile:
    try:
        return read_connector_file(path)
    except ConfigError as error:
        if not nameless or (error.problems[0].key, error.problems[0].text) != ("name", MISSING):
            raise
    return read_connector_file(path, path.stem)


def _check(path: Path, connector: ConnectorFile, worker: WorkerConfig) -> tuple[ConfigWarning, ...]:
    try:
        flow = build_connector(connector.name, connector.config, worker)
    except ConfigError as error:
        problems = [_problem(path, one.key, one.text, one.expected, one.kind) for one in error.problems]
        raise ConfigError(problems, _in_file(path, error.warnings)) from None
    from twinlog.worker.connectors.validation import validate  # noqa: PLC0415 - only who has connectors waits for it

    try:
        checked = validate(connector.config["connector.class"], connector.config, worker, VERSION)
    except RequestError as error:
        raise ConfigError([_problem(path, "connector.class", str(error), "a connector of MirrorMaker 2")]) from None
    problems = [_invalid(path, value.name, error) for _, value in checked.configs for error in value.errors]
    if problems:
        raise ConfigError(problems, _in_file(path, flow.warnings))
    return _in_file(path, flow.warnings)


def _in_file(path: Path, warnings: Sequence[ConfigWarning]) -> tuple[ConfigWarning, ...]:
    """The warnings of a connector with the lines of its file."""
    text = path.read_text("utf-8", "replace")
    return tuple(replace(one, file=str(path), line=line_of(text, one.key) if one.key else None) for one in warnings)


def _invalid(path: Path, name: str, error: str) -> ConfigProblem:
    text, message_id = split_id(error)
    kind = MistakeKind.of(message_id)
    match = _INVALID.fullmatch(text)
    if match is None:
        return _problem(path, name, text, "another value, or none", kind)
    return _problem(path, name, match[1], match[2], kind)


def _problem(path: Path, key: str, text: str, expected: str, kind: MistakeKind | None = None) -> ConfigProblem:
    return ConfigProblem(str(path), line_of(path.read_text("utf-8", "replace"), key), key, text, expected, kind)


@dataclass(frozen=True, slots=True)
class FlowsOfFile:
    """The flows of a file, the worker that runs them, if they are its connectors, and warnings about the file."""

    flows: list[FlowSettings]
    worker: WorkerSettings | None = None
    warnings: tuple[ConfigWarning, ...] = ()


def read_flows(path: Path, connectors: Sequence[Path] = (), secrets: Path | None = None) -> list[FlowSettings]:
    """The flows alone; see `read_flow_file`."""
    return read_flow_file(path, connectors, secrets).flows


def read_flow_file(
    path: Path, connectors: Sequence[Path] = (), secrets: Path | None = None, *, unknown_keys: UnknownKeys = "fail"
) -> FlowsOfFile:
    """The flows of the file at `path`, or of a worker's file the flows of `connectors`; idle flows are left out.

    With `unknown_keys` "warn" an unknown key of a mirror's file is a warning, as MirrorMaker 2 ignores it. Raises
    ConfigError with every problem found. Works offline.
    """
    kind = kind_of(path)
    if kind in (FileKind.MIRROR, FileKind.RESOURCE) and connectors:
        expected = "files of connectors only after that of a Connect worker"
        raise ConfigError([ConfigProblem(str(path), None, "", f"{connectors[0]} after it", expected)])
    if kind is FileKind.MIRROR:
        config = load(path, unknown_keys=unknown_keys)
        return FlowsOfFile(list(config.flows), warnings=config.warnings)
    if kind is FileKind.RESOURCE:
        from twinlog.config.strimzi.load import load_resource  # noqa: PLC0415 - YAML is slow to import

        resource = load_resource(path, secrets)
        running = [flow.settings for flow in resource.flows if not flow.idle]
        return FlowsOfFile(running, resource.worker.settings, resource.warnings)
    if kind is FileKind.CONNECTOR or not connectors:
        # The places of positions and records depend on the worker.
        expected = f"the worker's file and those of its connectors: FILE CONNECTOR..., for example {path} source.json"
        if kind is FileKind.CONNECTOR:
            expected = f"the file of its worker before it, for example connect-distributed.properties {path}"
        raise ConfigError([ConfigProblem(str(path), None, "", "it lacks flows of its own", expected)])

    worker = load_worker(path)
    found, warnings = read_connectors(connectors, worker, nameless=True)
    flows = [build_connector(one.name, one.config, worker) for one in found]
    running = [flow.settings for flow in flows if not flow.idle]
    return FlowsOfFile(running, worker.settings, (*worker.warnings, *warnings))
