"""Files of connectors, and the file of their worker, as they are given to a Connect worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlog.config.connector import DEFAULT_SOURCE, DEFAULT_TARGET, connector_kind, refused_class
from twinlog.config.connector_file import line_of, read_connector_file
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.ops.convert.model import ConnectorSpec, Mirrors, WorkerSpec


def mirrors_of_connectors(worker: Path | None, connectors: Sequence[Path]) -> Mirrors:
    """Return the mirrors that the files define; if the worker's file is missing, its settings are left to defaults.
    Raises ConfigError."""
    settings = {} if worker is None else {entry.key: entry for entry in read_properties(worker)}
    found: dict[str, ConnectorSpec] = {}
    problems: list[ConfigProblem] = []
    for path in connectors:
        try:
            one = _connector(path)
        except ConfigError as error:
            problems += error.problems
            continue
        if one.name in found:
            problems.append(ConfigProblem(str(path), None, "name", repr(one.name), "another name than in the others"))
        found[one.name] = one
    targets = dict.fromkeys(one.target for one in found.values())
    if not found and not problems:
        expected = "the files of connectors beside that of their worker"
        problems.append(ConfigProblem(str(worker), None, "(files)", "no connector", expected))
    if len(targets) > 1:
        expected = "one; convert the connectors of each target by themselves"
        problems.append(ConfigProblem(str(connectors[0]), None, "target.cluster.alias", ", ".join(targets), expected))
    if problems:
        raise ConfigError(problems)
    return Mirrors((WorkerSpec(next(iter(targets)), settings, tuple(found.values())),))


def _connector(path: Path) -> ConnectorSpec:
    file = str(path)
    read = read_connector_file(path)
    text = path.read_text("utf-8", "replace")
    entries = {key: PropertyEntry(key, value, file, line_of(text, key), value) for key, value in read.config.items()}
    entries.pop("name", None)
    written = read.config.get("connector.class", "")
    kind = connector_kind(written)
    if kind is None:
        expected = refused_class(written) if written else "the class of a connector of MirrorMaker 2"
        raise ConfigError(
            [ConfigProblem(file, line_of(text, "connector.class"), "connector.class", repr(written), expected)]
        )
    if "source.cluster.alias" not in entries:
        raise ConfigError([ConfigProblem(file, None, "source.cluster.alias", "missing", "the alias of the source")])
    # A cluster needs an alias in other forms, also if topics keep their names.
    source = read.config["source.cluster.alias"].strip() or DEFAULT_SOURCE
    target = read.config.get("target.cluster.alias", DEFAULT_TARGET).strip() or DEFAULT_TARGET
    return ConnectorSpec(read.name, kind, source, target, entries, read.initial_state or "RUNNING")
