"""Which partitions begin where the file says, and which appeared later and begin at their earliest record.

The file's `latest`, a time or a duration means the moment at which the flow first starts with a topic. A topic or a
partition that appears afterwards begins at its earliest record, or the records that were written before the flow found
it would be lost (KAFKA-4668). Cluster metadata do not say when a topic was created; so a topic counts as there before
where the flow is at its very first start, or where the flow's filter did not let the topic through until now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from twinlog.mirror.offsets.starts import AT_FIRST, Begin, ChosenTopics, FirstStart, TopicStart
from twinlog.mirror.topology.filters import TopicFilter
from twinlog.mirror.topology.patterns import PatternError
from twinlog.model.topics import Topic
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings


def first_start(known: FirstStart | None, chosen: ChosenTopics, now_ms: int) -> FirstStart:
    """The start that counts for topics which the flow finds now with the filter `chosen`.

    Another filter begins another one, unless the one before is not done: its moment stays.
    """
    if known is None:
        return FirstStart(now_ms, chosen)
    if known.chosen == chosen:
        return known
    if known.done:
        return FirstStart(now_ms, chosen, before=known.chosen)
    return replace(known, chosen=chosen)


@dataclass(slots=True)
class TopicPlan:
    """Where the partitions of one topic begin: by number, None for those that have a position.

    Places are still to be found for partitions in `asked`; those in `later` appeared after the flow had started.
    """

    topic: Topic
    begins: list[Begin | None]
    asked: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    recreated: bool = False

    @property
    def decides(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.asked or self.later)

    @property
    def in_part(self) -> bool:
        """Whether other partitions of the topic have a position, or a place that was decided before."""
        return not self.recreated and 0 < len(self.later) < self.topic.partitions


def differs(settings: FlowSettings, topic: TopicName) -> bool:
    """Whether a topic may begin elsewhere than at its earliest record, or than nowhere."""
    return settings.start_of(topic).kind not in {"earliest", "none"}


def plan_topics(
    topics: Iterable[Topic],
    stored: Mapping[TopicName, TopicStart],
    first: FirstStart,
    positions: Collection[TopicPartition],
) -> list[TopicPlan]:
    """What is decided for topics at the start `first`; `stored` is what was decided before, and partitions in
    `positions` have been copied."""
    return [_plan(topic, stored.get(topic.name), first, positions) for topic in topics]


def _plan(
    topic: Topic, stored: TopicStart | None, first: FirstStart, positions: Collection[TopicPartition]
) -> TopicPlan:
    recreated = stored is not None and topic.recreated(stored.topic_id)
    same = None if recreated else stored
    plan = TopicPlan(topic, [], recreated=recreated)
    appeared = recreated or same is not None or _appeared(topic, first)
    for number in range(topic.partitions):
        before = same.begins[number] if same is not None and number < len(same.begins) else None
        if TopicPartition(topic.name, number) in positions:
            plan.begins.append(None)
        elif before is not None:
            plan.begins.append(before)
        elif appeared:
            # Also one whose position somebody deleted: nothing says where the file's rule would put it.
            plan.begins.append(AT_FIRST)
            plan.later.append(number)
        else:
            plan.begins.append(None)
            plan.asked.append(number)
    return plan


def _appeared(topic: Topic, first: FirstStart) -> bool:
    """Whether a topic of which nothing is stored appeared after the flow had started with its filter."""
    return first.done or (first.before is not None and _lets_through(first.before, topic))


def _lets_through(chosen: ChosenTopics, topic: Topic) -> bool:
    """Whether an earlier filter let a topic through; True where nobody can say, so that nothing is lost."""
    if chosen.class_path is not None:
        return True
    try:
        return TopicFilter(chosen.include, chosen.exclude).accepts(topic.name)
    except PatternError:
        return True
