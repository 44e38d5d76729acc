"""The decisions of a flow about its first offsets, as records of its positions topic.

A flow with a topic that begins later than its earliest record stores the moment and the filter of its first start, and
the first offsets of each topic that it found then. A topic whose record is missing appeared later (KAFKA-4668). The
keys have the form of the offsets of the flow's connector, in the order of Java's HashMap. So a deletion of the
connector's offsets deletes these records with them; MirrorMaker 2 ignores both kinds of records. The facts are in the
values: a worker's file of offsets lacks room for headers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from twinlog.model.compact_json import MALFORMED, utf8_json
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import SOURCE_CONNECTOR, FlowSettings

FIELD = "twinlog"
"""The field of the key that marks a start record, beside the cluster and the topic."""

_KIND = "start"


@dataclass(frozen=True, slots=True)
class StartSpec:
    """The begin of a partition that lacks a position: its first record, unless a field is set.

    With `offset` the partition begins at this offset. With `since_ms` it begins at the first record with this timestamp
    or a later timestamp, and at its end if all records are older. With `refused` the partition stays uncopied.
    """

    offset: SourceOffset | None = None
    since_ms: int | None = None
    refused: bool = False


AT_FIRST = StartSpec()
REFUSED = StartSpec(refused=True)


@dataclass(frozen=True, slots=True)
class ChosenTopics:
    """The filter of a flow: its expressions, or the class in their place, with which a moment is decided."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    class_path: str | None = None

    @classmethod
    def of(cls, settings: FlowSettings) -> ChosenTopics:
        """The present filter of the settings."""
        own = settings.topic_filter_class
        return cls((), (), own.path) if own else cls(settings.topics, settings.topics_exclude)


@dataclass(frozen=True, slots=True)
class FirstStart:
    """The moment at which a flow first started with the topics of a filter, in milliseconds since 1970.

    `before` is the filter until then, None at the flow's very first start. Until `done`, the first offsets of some
    present topics are still to be stored.
    """

    at_ms: int
    chosen: ChosenTopics
    before: ChosenTopics | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class TopicStart:
    """The begins of a topic's partitions, by their number; None for a partition that had a position.

    `topic_id` is the topic's id, as text; None before Kafka 2.8.
    """

    at_ms: int
    topic_id: str | None
    begins: tuple[StartSpec | None, ...]


@dataclass(frozen=True, slots=True)
class StoredStarts:
    """The stored starts of a flow.

    `first` is None if the flow is still to start, or all its topics began at their first record.
    """

    first: FirstStart | None
    topics: Mapping[TopicName, TopicStart]

    def offsets(self, there: Mapping[TopicName, Topic]) -> dict[TopicPartition, SourceOffset]:
        """The first offsets of partitions that begin at a fixed offset; recreated topics are left out."""
        return {
            TopicPartition(name, number): begin.offset
            for name, start in self.topics.items()
            if name in there and not there[name].recreated(start.topic_id)
            for number, begin in enumerate(start.begins)
            if begin is not None and begin.offset is not None
        }


NOTHING_STORED = StoredStarts(None, MappingProxyType({}))

StartRecord = tuple[TopicName | None, FirstStart | TopicStart | None]
"""The topic of a record, None for the flow's own, and the stored start; None if it was deleted."""


def start_key(source: Alias, topic: TopicName | None, connector: str = SOURCE_CONNECTOR) -> bytes:
    """The key of the record of a topic, or of the flow itself (None)."""
    where = {"cluster": source, FIELD: _KIND} | ({} if topic is None else {"topic": topic})
    return utf8_json([connector, where])


def encode_start(start: FirstStart | TopicStart) -> bytes:
    """The value of a start record."""
    if isinstance(start, TopicStart):
        begins = [None if begin is None else _begin_json(begin) for begin in start.begins]
        return utf8_json({"at": start.at_ms, "id": start.topic_id, "begins": begins})
    return utf8_json(
        {
            "at": start.at_ms,
            "chosen": _chosen_json(start.chosen),
            "before": None if start.before is None else _chosen_json(start.before),
            "done": start.done,
        }
    )


def decode_start(
    source: Alias, key: bytes | None, value: bytes | None, connector: str = SOURCE_CONNECTOR
) -> StartRecord | None:
    """The start in a record of the positions topic; None for a record of another connector or kind."""
    try:
        name, where = json.loads(key or b"")
        if name != connector or where["cluster"] != source or where[FIELD] != _KIND:
            return None
        topic = where.get("topic")
        named = None if topic is None else TopicName(str(topic))
        if value is None:
            return named, None
        found = json.loads(value)
        if named is None:
            before = found["before"]
            return named, FirstStart(
                int(found["at"]),
                _chosen_of(found["chosen"]),
                None if before is None else _chosen_of(before),
                bool(found["done"]),
            )
        begins = tuple(None if begin is None else _begin_of(begin) for begin in found["begins"])
        return named, TopicStart(int(found["at"]), found["id"], begins)
    except MALFORMED:
        return None


def is_start(partition: Iterable[str]) -> bool:
    """Whether the fields of a stored offset's source partition are the fields of a start record."""
    return FIELD in set(partition)


def _begin_json(begin: StartSpec) -> dict[str, int]:
    if begin.offset is not None:
        return {"offset": begin.offset}
    return {} if begin.since_ms is None else {"since": begin.since_ms}


def _begin_of(found: dict[str, Any]) -> StartSpec:
    offset, since = found.get("offset"), found.get("since")
    return StartSpec(None if offset is None else SourceOffset(int(offset)), None if since is None else int(since))


def _chosen_json(chosen: ChosenTopics) -> dict[str, object]:
    return {"topics": list(chosen.include), "exclude": list(chosen.exclude), "class": chosen.class_path}


def _chosen_of(found: dict[str, Any]) -> ChosenTopics:
    include, exclude = (tuple(map(str, found[name])) for name in ("topics", "exclude"))
    path = found["class"]
    return ChosenTopics(include, exclude, None if path is None else str(path))
