"""The proofs of a copier's partitions: their notes, their prover, and the consequence of a difference."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from twinlog.copier.memory import CopierMemory
from twinlog.copier.partition.context import CopierContext
from twinlog.copier.partition.life import PartitionLife
from twinlog.copier.partition.partition import PartitionCopy
from twinlog.copier.proof.comparing import ProofDifference
from twinlog.copier.proof.partition_proof import PartitionProof, ProofNotes
from twinlog.copier.proof.prover import CopyView, Prover
from twinlog.kafka.net.frame_memory import FrameMemory
from twinlog.kafka.net.loop import Loop
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicPartition
from twinlog.process.log_once import LogOnce

log = logging.getLogger(__name__)

MOST_PROOF_BYTES = 32 << 20
PROOF_SHARE = 4
"""The share of a copier's memory for the answers of the target, up to `MOST_PROOF_BYTES`."""

WAIT_S = 1.0
"""How long a release waits for the proof of the last appends."""

MOST_EVENTS = 10
EVENTS_S = 60.0
"""So many differences of a partition are reported in this time; all of them are counted."""

LOOK_S = 0.02
AGAIN_S = 600.0
"""How often the same trouble of the prover is reported."""


class CopierProofs:
    """The proofs of a copier; all methods run on the copier's thread. The prover begins with the first partition."""

    def __init__(self, context: CopierContext, partitions: Mapping[TopicPartition, PartitionCopy]) -> None:
        settings = context.settings
        self._context = context
        self._partitions = partitions
        self._now = context.loop.clock.monotonic
        self._notes = ProofNotes(self._now)
        self._loop: Loop | None = None
        self._prover: Prover | None = None
        self._logged = LogOnce(context.loop.clock)
        self._reported: dict[TopicPartition, tuple[float, int]] = {}
        """The begin of a time of `EVENTS_S` and the differences in it, by partition."""
        proves = settings.transform is None and any(settings.proof.values)
        self.memory_bytes = min(MOST_PROOF_BYTES, settings.copier_memory_bytes // PROOF_SHARE) if proves else 0
        """The memory of the prover, in bytes; 0 for a flow that proves nothing."""

    @property
    def busy_s(self) -> float:
        """The processor time of the prover's thread so far, in seconds."""
        return 0.0 if self._prover is None else self._prover.busy_s

    def open_partition(self, life: PartitionLife, position: Position, *, transactional: bool) -> PartitionProof | None:
        """Begin to prove a partition that is copied from `position` on; None for other topics."""
        grant = life.grant
        settings, source = self._context.settings, grant.source
        if grant.heartbeats or not settings.proves(source.topic):
            return None
        proof = self._notes.open_partition(
            source,
            grant.remote,
            position,
            transactional=transactional,
            markers=transactional or settings.keeps_offsets(source.topic),
            reports=settings.held_policy("difference", source.topic) == "report",
            difference=life.difference,
            opened=life.opened,
        )
        self._call_prover(lambda prover: prover.add_partition(source, proof))
        return proof

    def close_partition(self, part: PartitionCopy) -> None:
        """The copier has released a partition: appends that still wait for their proof are out of it."""
        proof = part.copied.proof
        if proof is not None:
            self._reported.pop(part.source, None)
            self._context.tally.add_proven(0, 0, self._notes.close_partition(part.source))
            self._call_prover(lambda prover: prover.remove_partition(proof))

    async def wait_proven(self, parts: Iterable[PartitionCopy]) -> None:
        """Wait for the proof of the last appends of partitions, for a moment."""
        proofs = [part.copied.proof for part in parts if part.copied.proof is not None and not part.failed]
        deadline = self._now() + WAIT_S
        while any(proof.behind for proof in proofs) and self._now() < deadline:
            await self._context.loop.sleep(LOOK_S)

    def stop(self) -> None:
        """End the prover."""
        if self._prover is not None:
            self._call_prover(lambda prover: prover.stop())

    def _call_prover(self, function: Callable[[Prover], None]) -> None:
        """Call a function of the prover on its thread, soon."""
        if self._loop is None or self._prover is None:
            self._loop = loop = self._context.loop.beside()
            loop.crashed = self._crashed
            self._prover = Prover(
                loop, self._context.settings, self._memory_of, self._look, self._found, self._troubled
            )
            loop.run_on_thread(self._prover.run, f"prover {self._context.settings.name}")
        prover, loop = self._prover, self._loop
        # The loop of the prover may have ended by an error, which was reported.
        with suppress(Exception):
            loop.call_threadsafe(lambda: function(prover))

    def _memory_of(self, frames: FrameMemory) -> CopierMemory:
        return CopierMemory(self.memory_bytes, frames, {}, self._now)

    # Calls of the prover's thread.

    def _call_copier(self, function: Callable[[], None]) -> None:
        # The loop of the copier may have ended meanwhile.
        with suppress(Exception):
            if not self._context.stopped:
                self._context.loop.call_threadsafe(function)

    def _look(self, source: TopicPartition, answer: Callable[[CopyView | None], None]) -> None:
        def look() -> None:
            view = self._view(source)
            self._call_prover(lambda prover: answer(view))

        self._call_copier(look)

    def _found(self, source: TopicPartition, difference: ProofDifference) -> None:
        self._call_copier(lambda: self._take_difference(source, difference))

    def _crashed(self, error: BaseException) -> None:
        if self._context.stopped:
            # The loop of the prover ends with its open coroutines.
            return
        log.error("TW-FAULT-02: the prover of %s crashed", self._context.settings.name, exc_info=error)
        self._troubled(f"the remote topics are proven no more: internal error: {error!r}")

    def _troubled(self, text: str) -> None:
        self._call_copier(lambda: self._report_trouble(text))

    # Back on the copier's thread.

    def _view(self, source: TopicPartition) -> CopyView | None:
        part = self._partitions.get(source)
        if part is None:
            return None
        settled = part.misplaced is None and not part.failed and not part.state.unstored
        idle = part.queue.idle and not part.queue.late.expected and not part.copied.in_transaction
        return CopyView(part.durable.next_target, idle, settled, part.queue.identity.producer_id)

    def _take_difference(self, source: TopicPartition, difference: ProofDifference) -> None:
        self._context.tally.add_difference(difference.kind)
        part = self._partitions.get(source)
        if part is None or part.failed:
            return
        error = difference.as_error(source, part.remote)
        if part.copied.proof is not None and not part.copied.proof.reports:
            part.hold_difference(error)
            return
        since, count = self._reported.get(source, (self._now(), 0))
        if self._now() - since > EVENTS_S:
            since, count = self._now(), 0
        self._reported[source] = since, count + 1
        if count < MOST_EVENTS:
            more = "; more of them are only counted for a minute" if count + 1 == MOST_EVENTS else ""
            self._context.report_event("difference", error.message + more)

    def _report_trouble(self, text: str) -> None:
        if self._logged.is_new(text, AGAIN_S):
            self._context.report_event("proof", text)
