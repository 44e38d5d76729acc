"""Stored offsets of MirrorMaker 2's connectors: as rows of a table, and as words of a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.config.connector import connector_kind
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.settings.flow import ConnectorKind

NONE = "none"

Entry = dict[str, Any]
"""A `partition` and its `offset`, as in JSON."""


@dataclass(frozen=True, slots=True)
class _PartitionFormat:
    """The fields of a partition in a kind of connector (Kafka class MirrorUtils)."""

    fields: tuple[str, ...]
    example: str


_FORMS: dict[ConnectorKind, _PartitionFormat] = {
    "source": _PartitionFormat(("cluster", "topic", "partition"), "TOPIC:PARTITION=OFFSET, such as orders:3=1200"),
    "checkpoint": _PartitionFormat(("group", "topic", "partition"), "TOPIC:PARTITION=none with --group"),
    "heartbeat": _PartitionFormat(("sourceClusterAlias", "targetClusterAlias"), "none, or 0"),
}

_HEADS = {"sourceClusterAlias": "SOURCE", "targetClusterAlias": "TARGET"}


def rows(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Rows of a table, with its head: a column for each word that names a partition."""
    fields = next((form.fields for form in _FORMS.values() if all(_is(entry, form) for entry in entries)), None)
    if fields is None:
        # Of another connector, on a worker of Kafka's.
        return [("PARTITION", "OFFSET"), *((str(entry["partition"]), _offset(entry)) for entry in entries)]
    head = (_HEADS.get(field, field.upper()) for field in fields)
    # Sorted by type first: numbers by value.
    in_order = sorted(entries, key=lambda entry: [(type(part).__name__, part) for part in _place(entry, fields)])
    return [(*head, "OFFSET"), *((*map(str, _place(entry, fields)), _offset(entry)) for entry in in_order)]


def _place(entry: Entry, fields: Sequence[str]) -> list[Any]:
    return [entry["partition"][field] for field in fields]


def _is(entry: Entry, form: _PartitionFormat) -> bool:
    return set(entry["partition"]) == set(form.fields)


def _offset(entry: Entry) -> str:
    offset = entry["offset"]
    if offset is None:
        return NONE
    return str(offset["offset"]) if set(offset) == {"offset"} else str(offset)


def entries(words: Sequence[str], config: dict[str, str], group: str | None) -> list[Entry]:
    """The offsets that `words` of a command line name, of the connector with this configuration. Raises ConfigError."""
    kind = connector_kind(config.get("connector.class", ""))
    if kind is None:
        raise _wrong("OFFSET", "words for another connector than MirrorMaker 2's", "--file")
    if group is not None and kind != "checkpoint":
        raise _wrong("--group", repr(group), "none, since only checkpoints have groups")
    if kind == "checkpoint" and group is None:
        raise _wrong("--group", "missing", "the group whose checkpoints are meant")
    source = config.get("source.cluster.alias", "source").strip()
    if kind == "heartbeat":
        target = config.get("target.cluster.alias", "target").strip()
        pair = {"sourceClusterAlias": source, "targetClusterAlias": target}
        return [{"partition": pair, "offset": _number(word, word, kind)} for word in words]
    own = {"cluster": source} if kind == "source" else {"group": group}
    return [_of_topic(word, own, kind) for word in words]


def _of_topic(word: str, own: dict[str, Any], kind: ConnectorKind) -> Entry:
    place, _, offset = word.partition("=")
    topic, _, partition = place.rpartition(":")
    if not topic or not partition.isdecimal():
        raise _wrong("OFFSET", repr(word), _FORMS[kind].example)
    return {"partition": {**own, "topic": topic, "partition": int(partition)}, "offset": _number(offset, word, kind)}


def _number(offset: str, word: str, kind: ConnectorKind) -> dict[str, int] | None:
    if offset == NONE:
        return None
    if not offset.isdecimal():
        raise _wrong("OFFSET", repr(word), _FORMS[kind].example)
    return {"offset": int(offset)}


def _wrong(key: str, found: str, expected: str) -> ConfigError:
    return ConfigError([ConfigProblem("twinlog connectors offsets", None, key, found, expected)])
