"""Keeps the bounds of remote logs whose copies keep their offsets: the begin of the source, and no end but the copies'.

Retention and DeleteRecords (KIP-107) delete the first records of a source log. Fetches of the source tell its begin.
The copies of the deleted records are then deleted on the target, so that a consumer from the first offset sees the same
records on both clusters. A remote log that ends after the copies has a record of another program, also if the source is
idle: its partition is held, and its records are never deleted, because applications may have moved to the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.errors import DivergedError, TwinlogError
from twinlog.kafka.admin.topics import request_deletions
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.log_once import LogOnce
from twinlog.model.types import TargetOffset, TopicName, TopicPartition

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
                wanted = await self._find_deletions()
                agreeing = await self._look_at_ends([one.part for one in wanted])
            except TwinlogError:
                # A cluster is out of reach: copying reports it.
                continue
            wanted = [one for one in wanted if one.part in agreeing]
            by_leader: dict[int, list[_Deletion]] = {}
            for one in wanted:
                leader = self._target.leader(one.part.remote)
                if leader is not None:
                    by_leader.setdefault(leader.node, []).append(one)
            await self._loop.gather([self._loop.spawn(self._delete, node, some) for node, some in by_leader.items()])

    async def _find_deletions(self) -> list[_Deletion]:
        """The partitions whose source log begins after their remote log. Raises ClusterError."""
        befores = {part: before for part in self._partitions.values() if (before := _before(part)) > 0}
        self._begins = {part: begin for part, begin in self._begins.items() if part in befores}
        unknown = [part for part in befores if part not in self._begins]
        if unknown:
            found = await self._target.list_offsets([part.remote for part in unknown], EARLIEST)
            self._begins |= {part: TargetOffset(found[part.remote]) for part in unknown if part.remote in found}
        now = self._loop.clock.monotonic()
        return [
            _Deletion(part, before)
            for part, before in befores.items()
            if part in self._begins and before > self._begins[part] and self._refused.get(part.remote.topic, now) <= now
        ]

    async def _look_at_ends(self, wanted: Sequence[PartitionCopy]) -> set[PartitionCopy]:
        """The partitions whose remote logs end with the copies, among `wanted`, and now and then among all partitions.

        Partitions of longer logs are held. Raises ClusterError.
        """
        now = self._loop.clock.monotonic()
        if now - self._looked_at >= ENDS_S:
            self._looked_at = now
            wanted = [part for part in self._partitions.values() if _is_copied(part)]
        read_to = {part: part.read.offset for part in wanted}
        ends = await self._target.list_offsets([part.remote for part in wanted], LATEST) if wanted else {}
        agreeing = set()
        for part, before in read_to.items():
            end = ends.get(part.remote)
            if end is None or self._partitions.get(part.source) is not part or not _is_copied(part):
                continue
            if end <= max(before, part.read.offset):
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
            self._loop.start(self._refresh, moved)

    def _refuse(self, one: _Deletion, why: str) -> None:
        self._refused[one.topic] = self._loop.clock.monotonic() + REFUSED_S
        if self._logged.is_due(one.topic):
            self._context.report_event(
                "log start",
                f"{one.part.remote} keeps the records before offset {one.before}, which {one.part.source} deleted: "
                f"{why}",
            )

    async def _refresh(self, topics: set[TopicName]) -> None:
        """Find the leaders of topics again."""
        try:
            await self._target.refresh_soon(topics)
        except TwinlogError:
            # The next round shows whether the leader is known.
            return


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
