"""Right calls, each followed by a wrong call that mixes up the offsets of the two clusters: mypy tells them apart.

`make check` checks this module, and nothing runs it. A wrong call without an error of mypy fails the check, for its
comment is then an unused one.
"""

from __future__ import annotations

from twinlog.copier.partition.copied_records import CopiedRecords, MisplacedAppends
from twinlog.copier.partition.source_log import SourcePosition
from twinlog.copier.start.first_look import LogBounds
from twinlog.copier.start.lost_records import ResumePoint
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appends import Append
from twinlog.lease.messages import Grant
from twinlog.lease.progress import PartitionProgress
from twinlog.mirror.gaps import Gap, find_gap
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.offsets.exact_map import CopiedRun, CopiedRuns, ExactMap, Point
from twinlog.mirror.offsets.maps import ExactMaps
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import LastPoint
from twinlog.mirror.offsets.sync_store import MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync, SyncEmitter
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.records import Checkpoint
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition

s, t = SourceOffset(1), TargetOffset(2)
topic, group = TopicName("t"), GroupId("g")
part = TopicPartition(topic, 0)


def mix_up(
    map_: ExactMap,
    maps: ExactMaps,
    runs: CopiedRuns,
    append: Append,
    mirror: MirrorTranslation,
    emitter: SyncEmitter,
    translator: Translator,
    groups: GroupOffsetTranslator,
    copied: CopiedRecords,
    read: SourcePosition,
    grant: Grant,
    queue: AppendQueue,
    tip: LastPoint,
) -> None:
    found_there, found_here = map_.to_target(s), map_.to_source(t)
    assert found_there is not None
    assert found_here is not None
    assert grant.position is not None
    assert grant.position.next_target is not None
    Position(s, t)
    Position(t, s)  # type: ignore[arg-type]
    Position(grant.position.next_source)
    Position(grant.position.next_target)  # type: ignore[arg-type]
    Point(s, t)
    Point(t, s)  # type: ignore[arg-type]
    CopiedRun(s, t, 5)
    CopiedRun(s, s, 5)  # type: ignore[arg-type]
    LastPoint(0, s, t)
    LastPoint(0, t, t)  # type: ignore[arg-type]
    tip.before(s, t)
    tip.before(t, s)  # type: ignore[arg-type]
    OffsetSync(topic, 0, s, t)
    OffsetSync(topic, 0, t, s)  # type: ignore[arg-type]
    Checkpoint(group, topic, 0, s, t)
    Checkpoint(group, topic, 0, t, s)  # type: ignore[arg-type]
    PartitionProgress(topic, 0, s, t, s)
    PartitionProgress(topic, 0, s, t, t)  # type: ignore[arg-type]
    ExactMap(s, t)
    ExactMap(t, s)  # type: ignore[arg-type]
    map_.goes_back(s, t)
    map_.goes_back(t, s)  # type: ignore[arg-type]
    map_.move_end(found_here.offset, found_there.offset)
    map_.move_end(found_there.offset, found_here.offset)  # type: ignore[arg-type]
    map_.to_target(s)
    map_.to_target(t)  # type: ignore[arg-type]
    map_.to_source(found_there.offset)
    map_.to_source(found_here.offset)  # type: ignore[arg-type]
    maps.extend_map(part, s, t, generation=0)
    maps.extend_map(part, t, s, generation=0)  # type: ignore[arg-type]
    runs.add(append.spans, t)
    runs.add(append.spans, append.next_source_offset)  # type: ignore[arg-type]
    runs.add_jump(append.next_source_offset, t)
    runs.add_jump(t, t)  # type: ignore[arg-type]
    emitter.acknowledged(part, append.spans, t)
    emitter.acknowledged(part, append.spans, s)  # type: ignore[arg-type]
    mirror.translate(part, s)
    mirror.translate(part, t)  # type: ignore[arg-type]
    mirror.translate_back(part, t)
    mirror.translate_back(part, s)  # type: ignore[arg-type]
    translator.to_target(part, s)
    translator.to_target(part, t)  # type: ignore[arg-type]
    translator.to_source(part, t)
    translator.to_source(part, s)  # type: ignore[arg-type]
    groups.translate_offset(part, s)
    groups.translate_offset(part, t)  # type: ignore[arg-type]
    Gap("retention", s, s, s)
    Gap("retention", s, s, t)  # type: ignore[arg-type]
    find_gap(grant.position.next_source, s, s)
    find_gap(grant.position.next_target, s, s)  # type: ignore[arg-type]
    ResumePoint(s, True, t)
    ResumePoint(t, True, s)  # type: ignore[arg-type]
    LogBounds(s, t, t)
    LogBounds(t, t, t)  # type: ignore[arg-type]
    MisplacedAppends(t, s)
    MisplacedAppends(s, t)  # type: ignore[arg-type]
    copied.add(append, t, 0)
    copied.add(append, s, 0)  # type: ignore[arg-type]
    copied.pass_over(s, 0)
    copied.pass_over(t, 0)  # type: ignore[arg-type]
    read.seek_offset(append.first_source_offset)
    read.seek_offset(t)  # type: ignore[arg-type]
    queue.accept_first(t)
    queue.accept_first(append.first_source_offset)  # type: ignore[arg-type]
    Position(s)
    Position(1)  # type: ignore[arg-type]
