"""What a flow decided about where it begins, as records of its positions topic.

A flow whose topics do not all begin at their earliest record stores when it first started and with which filter, and
where each topic begins that it found then. A topic without such a record appeared later (KAFKA-4668). The records are
keyed as offsets of the flow's connector are, in the order of Java's HashMap, so that whoever deletes the offsets of the
connector deletes these with them; MirrorMaker 2 looks up neither. What they hold is in their values: a worker's file of
offsets has no room for headers.
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
"""In the key of such a record, beside the cluster and the topic."""

_KIND = "start"


@dataclass(frozen=True, slots=True)
class StartSpec:
    """Where a partition begins that has no position: at its first record, unless a field is set.

    At `offset`; or at the first record with the timestamp `since_ms` or a later timestamp, and at its end where there
    is none; or not at all, where its place is `refused`.
    """

    offset: SourceOffset | None = None
    since_ms: int | None = None
    refused: bool = False


AT_FIRST = StartSpec()
REFUSED = StartSpec(refused=True)


@dataclass(frozen=True, slots=True)
class ChosenTopics:
    """The filter of a flow: its expressions, or the class that takes their place, with which a moment is decided."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    class_path: str | None = None

    @classmethod
    def of(cls, settings: FlowSettings) -> ChosenTopics:
        """The filter that the settings have now."""
        own = settings.topic_filter_class
        return cls((), (), own.path) if own else cls(settings.topics, settings.topics_exclude)


@dataclass(frozen=True, slots=True)
class FirstStart:
    """When a flow first started with the topics of a filter, in milliseconds since 1970.

    `before` is the filter that it had until then, None at its very first start. Until `done`, where each topic begins
    that was there is not stored for all of them.
    """

    at_ms: int
    chosen: ChosenTopics
    before: ChosenTopics | None = None
    done: bool = False


@dataclass(frozen=True, slots=True)
class TopicStart:
    """Where the partitions of a topic begin, by their number; None for those that had a position.

    `topic_id` is that of the topic, as text; None before Kafka 2.8.
    """

    at_ms: int
    topic_id: str | None
    begins: tuple[StartSpec | None, ...]


@dataclass(frozen=True, slots=True)
class StoredStarts:
    """What is stored of one flow: `first` is None where it never started, or all its topics began at their first
    record."""

    first: FirstStart | None
    topics: Mapping[TopicName, TopicStart]

    def offsets(self, there: Mapping[TopicName, Topic]) -> dict[TopicPartition, SourceOffset]:
        """The offsets at which partitions of topics begin that begin at one; of recreated topics there are none."""
        return {
            TopicPartition(name, number): begin.offset
            for name, start in self.topics.items()
            if name in there and not there[name].recreated(start.topic_id)
            for number, begin in enumerate(start.begins)
            if begin is not None and begin.offset is not None
        }


NOTHING_STORED = StoredStarts(None, MappingProxyType({}))

StartRecord = tuple[TopicName | None, FirstStart | TopicStart | None]
"""The topic of a record, None for the flow's own, and what is stored; None where it was deleted."""


def start_key(source: Alias, topic: TopicName | None, connector: str = SOURCE_CONNECTOR) -> bytes:
    """The key of the record of a topic, or of the flow itself (None)."""
    where = {"cluster": source, FIELD: _KIND} | ({} if topic is None else {"topic": topic})
    return utf8_json([connector, where])


def encode_start(start: FirstStart | TopicStart) -> bytes:
    """The value of such a record."""
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
    """What a record of the positions topic says about a start; None for a record of another connector or kind."""
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
    """Whether the fields of a stored offset's source partition are those of such a record."""
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
