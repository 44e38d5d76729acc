"""Asks the source's leaders for the offsets at which partitions begin: their ends, or their first records since a time.

A partition whose leader does not answer begins by time once the leader does; it keeps no other partition waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol.list_offsets import LATEST
from twinlog.mirror.offsets.starts import Begin
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.topics.first_start import TopicPlan


def find_places(
    plans: Iterable[TopicPlan], settings: FlowSettings, source: ClusterAdmin, at_ms: int, *, now: bool
) -> None:
    """Fill in where the `asked` partitions of plans begin, of a flow that starts with them at `at_ms`.

    With `now` that is the present: a partition that begins at its end takes the end as it is. Otherwise records have
    come since that moment, and it begins by time.
    """
    plans = list(plans)
    starts = {
        TopicPartition(plan.topic.name, number): settings.start_of(plan.topic.name)
        for plan in plans
        for number in plan.asked
    }
    since = {part: start.since_ms(at_ms) for part, start in starts.items()}
    ends = {part for part, start in starts.items() if now and start.kind == "latest"}
    offsets = offsets_since(
        {part: None if part in ends else moment for part, moment in since.items()}, settings, source
    )
    for plan in plans:
        for number in plan.asked:
            part = TopicPartition(plan.topic.name, number)
            plan.begins[number] = Begin(offset=offsets[part]) if part in offsets else Begin(since_ms=since[part])


def offsets_since(
    wanted: Mapping[TopicPartition, int | None], settings: FlowSettings, source: ClusterAdmin
) -> dict[TopicPartition, SourceOffset]:
    """The first offset of each partition since a moment, or its end where there is none; its end where no moment is
    given. Partitions whose leader does not answer now are missing. Raises ClusterError."""
    committed = settings.consumer.isolation_level == "read_committed"
    # Ends come first: a record that is appended between two requests may be copied, and never be passed over.
    ends = source.answered(wanted, LATEST, read_committed=committed)
    found = {part: SourceOffset(end) for part, end in ends.items() if wanted[part] is None}
    by_moment: dict[int, list[TopicPartition]] = defaultdict(list)
    for part in ends:
        moment = wanted[part]
        if moment is not None:
            by_moment[moment].append(part)
    for moment, parts in by_moment.items():
        for part, offset in source.answered(parts, moment, read_committed=committed).items():
            found[part] = SourceOffset(ends[part] if offset < 0 else offset)
    return found
