"""Finds topics that a flow leaves out although the file names them, groups read them, or names resemble its topics."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher

from twinlog.mirror.topology.filters import DefaultTopicFilter, matches, name_beginnings
from twinlog.mirror.topology.topology import Topology, absent_topics
from twinlog.model.amounts import counted
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.audit.report import AuditPart, Finding, Severity

ALIKE = 0.85
"""How alike two names must be, from 0 to 1, as difflib measures it."""

_LEAST = 3
"""The least number of characters of a name that another name may begin with: short beginnings are common."""

_QUESTION = "does another mirror copy them? otherwise "
"""A topic outside the filter whose remote topic has records may have its copies from another mirror."""

_Topics = defaultdict[tuple[str, bool], list[TopicName]]
"""Topics by a reason, and by whether their remote topic has records."""

_EDGE = re.compile(r"[^a-zA-Z0-9]")


def outside(
    topology: Topology,
    topics: Collection[TopicName],
    readers: Mapping[TopicName, Sequence[GroupId]],
    records: Callable[[TopicName], int | None],
    flow: str,
    copied: Callable[[TopicName], int | None] = lambda _: None,
) -> list[Finding]:
    """The topics of the source that the filter leaves out, and that groups or names make suspicious; and the topics of
    the filter that the source lacks or hides.

    `readers` are the groups that the flow follows, by the topics that they have committed in. `records` counts the
    offsets of a topic, None if unknown. `copied` counts the offsets of its remote topic, which another mirror may
    write.
    """
    read: _Topics = defaultdict(list)
    alike: _Topics = defaultdict(list)
    for topic in sorted(topics):
        why = topology.topics.refusal(topic)
        if why is None or topology.policy.is_internal(topic) or topology.mirrors(topic):
            continue
        if topology.came_from_target(topic) or topology.is_heartbeats(topic):
            continue
        if readers.get(topic):
            read[why, bool(copied(topic))].append(topic)
        elif (reason := near_miss(topology.topics, topic)) is not None:
            alike[reason, bool(copied(topic))].append(topic)

    def copy(topic: TopicName) -> str:
        count = copied(topic)
        return f"; {topology.remote_name(topic)} has {counted(count, 'record')}" if count else ""

    return [
        *_of_absent(topology, topics, flow),
        *_of_readers(read, readers, records, flow, copy),
        *_of_names(alike, records, flow, copy),
    ]


def near_miss(filter_: DefaultTopicFilter, topic: TopicName) -> str | None:
    """The reason why a topic outside of `topics` looks as if it should be inside; None without a likeness.

    A topic that `topics.exclude` matches is left out on purpose.
    """
    if type(filter_) is not DefaultTopicFilter or matches((*filter_.include, *filter_.exclude), topic):
        return None
    if matches(tuple(f"(?i:{one})" for one in filter_.include), topic):
        return "only upper and lower case differ"
    for text, more in name_beginnings(filter_.include):
        if len(text) < _LEAST:
            continue
        if topic.startswith(text) and (more or _EDGE.match(topic[len(text) :])):
            return f"the same beginning {text}"
        stem = text.rstrip("._-")
        if len(stem) >= _LEAST and more and (topic == stem or _begins(topic, stem)):
            return f"the same beginning {stem}, topics has {text}"
        if not more and SequenceMatcher(None, text, topic).ratio() >= ALIKE:
            return f"similar to {text}"
    return None


def _begins(topic: str, stem: str) -> bool:
    """Whether a name is a stem with another separator after it."""
    return topic.startswith(stem) and _EDGE.match(topic[len(stem) :]) is not None


def _of_absent(topology: Topology, topics: Collection[TopicName], flow: str) -> list[Finding]:
    names = absent_topics(topology, topics)
    if not names:
        return []
    mirrored = any(topology.mirrors(topic) and not topology.is_heartbeats(topic) for topic in topics)
    severity = Severity.WARNING if mirrored else Severity.CRITICAL
    of_all = "" if mirrored else ", and the flow mirrors no other topic"
    text = (
        f"{topology.source} lacks {counted(len(names), 'topic')} of the file, or hides them from the login"
        f"{of_all}: {listed(names)}"
    )
    way = "correct the names, create the topics, or grant the rights that `twinlog acls FILE --missing` prints"
    return [Finding("topic-absent", severity, AuditPart.FILTER, text, way, len(names), flow)]


def _of_readers(
    read: _Topics,
    readers: Mapping[TopicName, Sequence[GroupId]],
    records: Callable[[TopicName], int | None],
    flow: str,
    copy: Callable[[TopicName], str],
) -> list[Finding]:
    found = []
    for (why, is_copied), names in read.items():
        groups = sorted({group for name in names for group in readers[name]})
        verb = "is" if len(names) == 1 else "are"
        text = (
            f"{counted(len(names), 'topic')} {verb} left out ({why}), and groups that the flow follows read "
            f"{'it' if len(names) == 1 else 'them'}: {listed(names)}"
        )
        lines = tuple(f"{name}: {_amount(records(name))}read by {listed(readers[name])}{copy(name)}" for name in names)
        way = f"{_QUESTION if is_copied else ''}add them to topics, or leave {listed(groups)} out of groups"
        found.append(Finding("topic-outside", Severity.WARNING, AuditPart.FILTER, text, way, len(names), flow, lines))
    return found


def _of_names(
    alike: _Topics,
    records: Callable[[TopicName], int | None],
    flow: str,
    copy: Callable[[TopicName], str],
) -> list[Finding]:
    found = []
    for (reason, is_copied), names in alike.items():
        verb = "is" if len(names) == 1 else "are"
        like = "a name" if len(names) == 1 else "names"
        count = counted(len(names), "topic")
        text = f"{count} {verb} left out with {like} like an entry of topics ({reason}): {listed(names)}"
        lines = tuple(f"{name}: {_amount(records(name)).removesuffix(', ') or 'unread'}{copy(name)}" for name in names)
        advice = "add them to topics if they belong to the mirror, or to topics.exclude if they are foreign"
        way = f"{_QUESTION}{advice}" if is_copied else advice
        found.append(Finding("topic-outside", Severity.WARNING, AuditPart.FILTER, text, way, len(names), flow, lines))
    return found


def _amount(records: int | None) -> str:
    return "" if records is None else f"{counted(records, 'record')}, "
