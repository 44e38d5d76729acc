"""Keeps the bounds of remote logs whose copies keep their offsets: the begin of the source, and no end but the copies'.

Retention and DeleteRecords (KIP-107) delete the first records of a source log. Fetches of the source tell its begin.
The copies of the deleted records are then deleted on the target, so that a consumer from the first offset sees the same
records on both clusters. The source's leaders confirm each begin first, because a near replica (KIP-392) may apply
retention earlier. A remote log that ends after the copies has a record of another program, also if the source is
idle: its partition is held, and its records are never deleted, because applications may have moved to the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import DivergedError, RefusedError, TwinlogError
from twinlog.kafka.admin.topics import request_deletions
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.metadata import TopicMetadata
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import LogOnce

INTERVAL_S = 5.0
"""How often the begins of logs are compared. Brokers look for old segments every five minutes by default."""

ENDS_S = 60.0
"""How often the ends of all remote logs are looked at."""

REPLICAS_MS = 10
"""How long an answer waits for the replicas: markers wait behind it on the same connection. The next round shows the
rest."""

REFUSED_S = 60.0
"""How long a topic rests whose records may not be deleted."""


@dataclass(frozen=True, slots=True)
class _Deletion:
    """The records of a partition before an offset are to be deleted on the target."""

    part: PartitionCopy
    before: TargetOffset

    @property
    def topic(self) -> TopicName:
        return self.part.remote.topic


class RemoteBounds:
    """The bounds of the remote logs of a copier's `partitions`."""

    def __init__(self, context: CopierContext, partitions: Mapping[TopicPartition, PartitionCopy]) -> None:
        self._context = context
        self._loop = context.loop
        self._target = context.target
        self._partitions = partitions
        self._begins: dict[PartitionCopy, TargetOffset] = {}
        """The known begin of each remote log that had to be compared."""
        self._refused: dict[TopicName, float] = {}
        """The topics that keep their records, each with the end of its rest in monotonic seconds."""
        self._looked_at = context.loop.clock.monotonic()
        """The time of the last look at the ends of all logs, in monotonic seconds."""
        self._logged = LogOnce(context.loop.clock)

    async def keep(self) -> None:
        """Compare the bounds of the logs again and again, and delete on the target, until the copier stops."""
        while not self._context.stopped:
            await self._loop.sleep(INTERVAL_S)
            try:
                wanted = await self._confirm_deletions(await self._find_deletions())
                agreeing = await self._look_at_ends([one.part for one in wanted])
            except TwinlogError:
                # A cluster is out of reach: copying reports it.
                continue
            by_remote = {one.part.remote: one for one in wanted if one.part in agreeing}
            groups = self._target.group_by_leader(by_remote)
            await self._loop.gather(
                [
                    self._loop.spawn(self._delete, node, [by_remote[one] for one in some])
                    for node, some in groups.items()
                ]
            )

    async def _find_deletions(self) -> list[_Deletion]:
        """The partitions whose source log begins after their remote log. Raises ClusterError."""
        befores = {part: before for part in self._partitions.values() if (before := _before(part)) > 0}
        self._begins = {part: begin for part, begin in self._begins.items() if part in befores}
        unknown = [part for part in befores if part not in self._begins]
        if unknown:
            found = await self._list_offsets(self._target, [part.remote for part in unknown], EARLIEST)
            self._begins |= {part: TargetOffset(found[part.remote]) for part in unknown if part.remote in found}
        now = self._loop.clock.monotonic()
        self._refused = {topic: until for topic, until in self._refused.items() if until > now}
        return [
            _Deletion(part, before)
            for part, before in befores.items()
            if part in self._begins and before > self._begins[part] and part.remote.topic not in self._refused
        ]

    async def _confirm_deletions(self, wanted: Sequence[_Deletion]) -> list[_Deletion]:
        """Of some deletions the part that the leaders of the source confirm, in remote topics of the known id.

        Raises ClusterError.
        """
        if not wanted:
            return []
        there = await self._target.refresh_soon({one.topic for one in wanted})
        wanted = [one for one in wanted if _has_id(there.get(one.topic), one.part.acknowledged.remote_topic_id)]
        starts = await self._list_offsets(self._context.source, [one.part.source for one in wanted], EARLIEST)
        confirmed = [
            _Deletion(one.part, TargetOffset(min(one.before, starts[one.part.source])))
            for one in wanted
            if one.part.source in starts
        ]
        return [one for one in confirmed if one.part in self._begins and one.before > self._begins[one.part]]

    async def _list_offsets(
        self, client: ClusterClient, partitions: Sequence[TopicPartition], at: int
    ) -> dict[TopicPartition, int]:
        """First or next offsets, also if some topics are refused; finds the leaders of missing partitions again.

        Raises ClusterError.
        """
        if not partitions:
            return {}
        try:
            found = await client.list_offsets(partitions, at)
        except RefusedError:
            # A topic with a missing right must not keep the other topics from their bounds.
            found = {}
            for topic in {one.topic for one in partitions}:
                with suppress(RefusedError):
                    found |= await client.list_offsets([one for one in partitions if one.topic == topic], at)
        missing = {one.topic for one in partitions if one not in found}
        if missing and not self._context.stopped:
            self._loop.start(self._refresh, client, missing)
        return found

    async def _look_at_ends(self, wanted: Sequence[PartitionCopy]) -> set[PartitionCopy]:
        """The partitions whose remote logs end with the copies, among `wanted`, and now and then among all partitions.

        Partitions of longer logs are held. Raises ClusterError.
        """
        now = self._loop.clock.monotonic()
        if now - self._looked_at >= ENDS_S:
            self._looked_at = now
            wanted = [part for part in self._partitions.values() if _is_copied(part)]
        bounds = {part: (TargetOffset(part.acknowledged.next_source), part.read.offset) for part in wanted}
        ends = await self._list_offsets(self._target, [part.remote for part in wanted], LATEST)
        agreeing = set()
        for part, (copied, before) in bounds.items():
            end = ends.get(part.remote)
            if end is None or self._partitions.get(part.source) is not part or not _is_copied(part):
                continue
            if end <= max(before, part.read.offset):
                # A shorter log lost copies, or is of a topic that was created again: copying finds this.
                if end >= copied:
                    agreeing.add(part)
            elif not part.queue.late.expected:
                text = f"{part.source}: {part.remote} has diverged: it ends at offset {end}, and the copies end before"
                part.fail_partition(
                    DivergedError(f"{text} offset {part.read.offset}, as if another program wrote to it")
                )
        return agreeing

    async def _delete(self, node: int, wanted: Sequence[_Deletion]) -> None:
        """Delete records of partitions that a broker leads; the remaining partitions are tried again later."""
        wanted = [one for one in wanted if self._partitions.get(one.part.source) is one.part]
        try:
            befores = {one.part.remote: one.before for one in wanted}
            codes = await request_deletions(self._target, node, befores, REPLICAS_MS)
        except TwinlogError:
            # The next round finds the leaders that copying has found meanwhile.
            return
        moved: set[TopicName] = set()
        for one in wanted:
            code = codes.get(one.part.remote)
            if code == Code.NONE:
                self._begins[one.part] = one.before
                self._refused.pop(one.topic, None)
                self._logged.end_condition(one.topic)
            elif code == Code.POLICY_VIOLATION:
                self._refuse(one, "cleanup.policy of the topic lacks delete")
            elif code is not None and error_codes.refused(code):
                self._refuse(one, str(self._target.lacks("DELETE", f"topic {one.topic}", "deleting them")))
            elif code != Code.REQUEST_TIMED_OUT:
                moved.add(one.topic)
        if moved and not self._context.stopped:
            self._loop.start(self._refresh, self._target, moved)

    def _refuse(self, one: _Deletion, why: str) -> None:
        self._refused[one.topic] = self._loop.clock.monotonic() + REFUSED_S
        if self._logged.is_due(one.topic):
            self._context.report_event(
                "log start",
                f"{one.part.remote} keeps the records before offset {one.before}, which {one.part.source} deleted: "
                f"{why}",
            )

    async def _refresh(self, client: ClusterClient, topics: set[TopicName]) -> None:
        """Find the leaders of topics again."""
        try:
            await client.refresh_soon(topics)
        except TwinlogError:
            # The next round shows whether the leader is known.
            return


def _has_id(topic: TopicMetadata | None, topic_id: str | None) -> bool:
    """Whether a topic has an id; an unknown id fits each topic."""
    return topic is not None and (None in (topic.topic_id, topic_id) or str(topic.topic_id) == topic_id)


def _is_copied(part: PartitionCopy) -> bool:
    """Whether the copies of a partition keep their offsets, and their place on the target is known."""
    state = part.state
    ready = not state.filling and not state.unstored and state.misplaced is None
    return part.limit.rules.keep_offsets and ready and not part.left and not part.failed


def _before(part: PartitionCopy) -> TargetOffset:
    """The offset up to which the copies of a partition may be deleted; 0 if none of them may be."""
    if not _is_copied(part):
        return TargetOffset(0)
    before = min(part.read.log_start, part.acknowledged.next_source)
    proof = part.copied.proof
    # The prover reads each copy first.
    return TargetOffset(before if proof is None else min(before, proof.proven.source))
