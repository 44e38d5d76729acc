"""Finds remote logs that may hold other records than the position counts.

A log that lost acknowledged records is shorter than its position, until later appends take the offsets of the lost
records. Later appends come from a copier that missed the loss, or are the marker with which the target ends a
transaction. Two signs show the loss: the sequence numbers of the position's producer grew by more than the log, or the
offset before the position lacks a commit marker. Both signs leave a doubt, which only a comparison of records resolves.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.kafka.admin.producer_states import ProducerState, producer_states
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.protocol.error_codes import Code, explain, refused
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.records import is_abort_marker
from twinlog.kafka.record.sequence_numbers import records_between
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TargetOffset, TopicPartition

MARKER_BYTES = 128
"""Larger than any marker's batch; for a larger batch a broker's answer is empty."""

MOST_BYTES = 64 << 20
"""A broker returns the first batch of an answer whole."""


async def find_unverified(
    target: ClusterClient, positions: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, TargetOffset]
) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, str]]:
    """Whether a remote log that ends at its position or after it may lack earlier records.

    The second result has the reason for each partition about which that is unknown. Makes at most two requests to each
    leader. Raises ClusterError, and RefusedError without READ on the topic.
    """
    counted = {remote: position for remote, position in positions.items() if position.next_target}
    written = {remote: position for remote, position in counted.items() if position.writer is not None}
    found = dict.fromkeys(positions.keys() - counted.keys(), False)
    errors: dict[TopicPartition, str] = {}
    if written:
        states, errors = await producer_states(target, written)
        found |= {remote: _overtaken(written[remote], ends[remote], states[remote]) for remote in states}
    marked, failed = await _unmarked(target, {remote: one for remote, one in counted.items() if remote not in written})
    return found | marked, errors | failed


def _overtaken(position: Position, end: TargetOffset, states: list[ProducerState]) -> bool:
    """Whether the position's writer has since appended more records than the log has grown by."""
    writer, counted = position.writer, position.next_target
    assert writer is not None
    assert counted is not None
    for state in states:
        if (state.producer_id, state.epoch) == (writer.producer_id, writer.epoch) and state.last_sequence >= 0:
            appended = records_between(writer.sequence, state.last_sequence + 1)
            # Sequence numbers wrap: a distance of more than half the range means that the log has fewer of the writer's
            # records than the position counts.
            return appended > end - counted
    return False


async def _unmarked(
    target: ClusterClient, positions: Mapping[TopicPartition, Position]
) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, str]]:
    """Whether the offset of a commit marker holds another batch.

    The second result has the reason for each partition about which that is unknown. Raises ClusterError, and
    RefusedError without READ on the topic.
    """
    places = {
        remote: TargetOffset(position.next_target - 1)
        for remote, position in positions.items()
        if position.next_target is not None
    }
    answers = await fetch_once(
        target, places, read_committed=False, partition_bytes=MARKER_BYTES, most_bytes=MOST_BYTES
    )
    found: dict[TopicPartition, bool] = {}
    errors = dict.fromkeys(positions, "it has no leader, or returns nothing, as when a quota throttles it")
    for remote, answer in answers.items():
        if refused(answer.error):
            raise target.lacks("READ", f"topic {remote.topic}", "finding out what the target still has")
        if not answer.error:
            found[remote] = _is_no_marker(answer, places[remote])
        elif answer.error == Code.OFFSET_OUT_OF_RANGE:
            # The offset is deleted by now. The end of a log shows whether the log became shorter.
            found[remote] = False
        else:
            errors[remote] = explain(answer.error)
    return found, {remote: why for remote, why in errors.items() if remote not in found}


def _is_no_marker(answer: PartitionResponse, offset: TargetOffset) -> bool:
    batch = read_batch(answer.records, 0)
    if batch is None:
        return True
    if batch.base_offset > offset or not batch.is_transactional:
        return False
    return not batch.is_control or batch.last_offset != offset or is_abort_marker(answer.records, batch)
