"""Looks at the logs of source partitions for an operator's command."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.partition_states import require_current_id
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.consumer.leader_fetch import fetch_once
from twinlog.kafka.leader_epochs import compare_leader_epochs
from twinlog.mirror.gaps import is_of_another_topic
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import SourceOffset, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.worker.control.deciding import PartitionLog
from twinlog.worker.control.model import LogPlaceKind, TopicCommand, TopicVerb

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 20


def look(
    settings: FlowSettings,
    source: ClusterAdmin,
    command: TopicCommand,
    partitions: Sequence[TopicPartition],
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, PartitionLog]:
    """The log of each of these partitions, with the parts that the command needs.

    A partition is missing while its offsets are unknown, for example during the election of its leader. Raises
    ClusterError if the whole source is silent.
    """
    if not command.verb.moves:
        return {}
    topics = source.topics()
    recreated = {
        part
        for part, position in positions.items()
        if part.topic in topics and topics[part.topic].recreated(position.topic_id)
    }
    starts = source.offsets(partitions, latest=False)
    # Records of an open transaction are yet to be copied; a gap depends on the records in the log.
    committed = settings.consumer.isolation_level == "read_committed" and command.verb is not TopicVerb.ACCEPT_GAP
    ends = source.offsets(partitions, latest=True, read_committed=committed)
    known = [part for part in partitions if part in starts and part in ends and not _is_stale(source, part, recreated)]
    without_id = {
        part: positions[part].leader_epoch
        for part in known
        if part in positions and part.topic in topics and topics[part.topic].topic_id is None
    }
    orders = source.call(compare_leader_epochs, source.client, without_id)
    known = [part for part in known if part in orders or part not in without_id]
    recreated |= {
        part for part, (order, end) in orders.items() if is_of_another_topic(positions[part].next_source, end, order)
    }
    at_time: dict[TopicPartition, int] = {}
    if command.place is not None and command.place.kind is LogPlaceKind.TIME:
        at_time = {part: at for part, at in source.first_since(known, command.place.value).items() if at >= 0}
    diverging: dict[TopicPartition, int] = {}
    if command.verb is TopicVerb.ACCEPT_GAP:
        asked = {
            part: positions[part]
            for part in known
            if part in positions and part not in recreated and starts[part] <= positions[part].next_source
        }
        diverging = source.call(partial(_diverging, source.client, asked))
    return {
        part: PartitionLog(
            SourceOffset(starts[part]),
            SourceOffset(ends[part]),
            part in recreated,
            SourceOffset(at_time[part]) if part in at_time else None,
            SourceOffset(diverging.get(part, -1)),
        )
        for part in known
    }


def _is_stale(source: ClusterAdmin, part: TopicPartition, recreated: Collection[TopicPartition]) -> bool:
    """Whether the leader of a recreated partition may have answered for the deleted partition."""
    if part not in recreated:
        return False
    try:
        source.call(require_current_id, source.client, part)
    except RefusedError:
        raise
    except ClusterError as error:
        log.debug("%s is asked for later: %s", part, error)
        return True
    return False


async def _diverging(client: ClusterClient, positions: Mapping[TopicPartition, Position]) -> dict[TopicPartition, int]:
    """The offset from which each diverging source log differs from the copied log. Raises ClusterError."""
    asked = {part: position for part, position in positions.items() if position.leader_epoch >= 0}
    answers = await fetch_once(
        client,
        {part: position.next_source for part, position in asked.items()},
        read_committed=False,
        partition_bytes=1,
        most_bytes=MOST_BYTES,
        epochs={part: position.leader_epoch for part, position in asked.items()},
    )
    return {part: answer.diverging_end for part, answer in answers.items() if answer.diverging_epoch >= 0}
