"""The files of connectors that a worker is given on its command line, checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from twinlog.config.connector import ConnectorFile, build_connector, line_of, read_connector_file
from twinlog.config.worker import WorkerConfig
from twinlog.connectors.model import VERSION
from twinlog.connectors.validation import validate
from twinlog.errors import ConfigError, ConfigProblem, RequestError

_INVALID = re.compile(r"Invalid value (.*) for configuration [^:]*: (?:expected )?(.*)", re.DOTALL)


def read_connectors(
    paths: Sequence[Path], worker: WorkerConfig, *, nameless: bool = False
) -> tuple[list[ConnectorFile], list[str]]:
    """The connectors of the files at `paths`, in their order, and warnings about them.

    A `nameless` connector, for example the body of a PUT, is called by its file. Raises ConfigError with the problems
    of all connectors: problems that a worker would refuse, and equal names. Works offline.
    """
    found: dict[str, ConnectorFile] = {}
    problems: list[ConfigProblem] = []
    warnings: list[str] = []
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
    if problems:
        raise ConfigError(problems, warnings)
    return list(found.values()), warnings


def _read(path: Path, nameless: bool) -> ConnectorFile:
    try:
        return read_connector_file(path)
    except ConfigError as error:
        if not nameless or (error.problems[0].key, error.problems[0].found) != ("name", "missing"):
            raise
    return read_connector_file(path, path.stem)


def _check(path: Path, connector: ConnectorFile, worker: WorkerConfig) -> tuple[str, ...]:
    try:
        flow = build_connector(connector.name, connector.config, worker)
    except ConfigError as error:
        problems = [_problem(path, one.key, one.found, one.expected) for one in error.problems]
        raise ConfigError(problems, error.warnings) from None
    try:
        checked = validate(connector.config["connector.class"], connector.config, worker, VERSION)
    except RequestError as error:
        raise ConfigError([_problem(path, "connector.class", str(error), "a connector of MirrorMaker 2")]) from None
    problems = [_invalid(path, value.name, error) for _, value in checked.configs for error in value.errors]
    if problems:
        raise ConfigError(problems, flow.warnings)
    return flow.warnings


def _invalid(path: Path, name: str, error: str) -> ConfigProblem:
    match = _INVALID.fullmatch(error)
    return _problem(path, name, *match.groups()) if match else _problem(path, name, error, "another value, or none")


def _problem(path: Path, key: str, found: str, expected: str) -> ConfigProblem:
    return ConfigProblem(str(path), line_of(path.read_text("utf-8", "replace"), key), key, found, expected)
