"""Plans the first offsets of partitions that lack a position, as the run decides them; it only reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from twinlog.clock import wall_ms
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.offsets.starts import AT_FIRST, ChosenTopics, StoredStarts
from twinlog.model.moment import shown_moment
from twinlog.model.topics import Topic, listed
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.ops.inventory.contents import LogOffsets
from twinlog.settings.flow import FlowSettings
from twinlog.worker.topics.starts import differs, find_places, first_start, plan_topics


@dataclass(frozen=True, slots=True)
class PlannedStarts:
    """The planned starts.

    `begins` are offsets of partitions that begin after their first record, `notes` are for people, and `nowhere` are
    topics that may not begin (`auto.offset.reset = none`).
    """

    begins: Mapping[TopicPartition, SourceOffset]
    notes: tuple[str, ...]
    nowhere: tuple[str, ...]


def planned_starts(
    flow: FlowSettings,
    source: ClusterAdmin,
    topics: Sequence[Topic],
    logs: Mapping[TopicPartition, LogOffsets],
    positions: Collection[TopicPartition],
    stored: StoredStarts,
) -> PlannedStarts:
    """Return the first offsets of the partitions of `topics` that are outside of `positions`.

    `stored` are earlier decisions of the flow.

    Asks the source for offsets by time, for topics that begin at a time. Raises ClusterError.
    """
    now = wall_ms(source.clock)
    chosen = ChosenTopics.of(flow)
    first = first_start(stored.first, chosen, now)
    mine = [topic for topic in topics if differs(flow, topic.name)]
    plans = [plan for plan in plan_topics(mine, stored.topics, first, positions) if any(plan.begins) or plan.asked]
    find_places(plans, flow, source, first.at_ms, now=first.at_ms == now and first != stored.first)
    begins: dict[TopicPartition, SourceOffset] = {}
    passed: dict[str, int] = defaultdict(int)
    later: dict[str, list[str]] = defaultdict(list)
    for plan in plans:
        name, start = plan.topic.name, flow.start_of(plan.topic.name)
        key = flow.start_key(name)
        if plan.later:
            later[key].append(name)
        for number, begin in enumerate(plan.begins):
            part = TopicPartition(name, number)
            log = logs.get(part)
            if begin is None or begin == AT_FIRST or log is None:
                continue
            begins[part] = SourceOffset(log.end) if begin.offset is None else begin.offset
            when = (
                "there already" if start.kind == "latest" else f"older than {shown_moment(start.since_ms(first.at_ms))}"
            )
            passed[f"that are {when} are not copied, as {key}"] += max(0, min(begins[part], log.end) - log.start)
    notes = [f"{count} records {what}" for what, count in passed.items()]
    notes += [
        f"{listed(names)} appeared after the flow's first start, or have partitions that did: without a position each "
        f"begins at its earliest record, not by {key}"
        for key, names in later.items()
    ]
    nowhere = [
        topic.name
        for topic in topics
        if flow.start_of(topic.name).kind == "none"
        and any(TopicPartition(topic.name, number) not in positions for number in range(topic.partitions))
    ]
    return PlannedStarts(begins, tuple(notes), tuple(nowhere))
