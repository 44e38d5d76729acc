"""Brings a partition back to work when one of its clusters lost track of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from twinlog.errors import ClusterError, TwinlogError
from twinlog.kafka.net.backoff import Backoff, pause_s
from twinlog.kafka.net.loop import Loop, Signal
from twinlog.model.types import SourceOffset
from twinlog.offsets.exact import Run
from twinlog.offsets.positions import Position, Writer
from twinlog.read.gaps import UNKNOWN
from twinlog.settings.flow import FlowSettings
from twinlog.task.gap_check import GapCheck
from twinlog.task.partition import PartitionCopy
from twinlog.task.start_position import StartPositions
from twinlog.write.queue import ProducerIdentity

RETRY_MS = 200
RETRY_MAX_MS = 5_000
"""A topic may be gone for long, with each of its partitions asking for it."""


class Recovery:
    """What partitions ask for when they cannot go on by themselves; each step ends with one that copies or failed.

    `held(partition)` is True as long as the copier has it and works. `identity_after(identity)` says under which
    identity a partition goes on that appended under `identity`, and `store(partition)` stores what is acknowledged of
    it with its writer. `moved` is set when something was acknowledged.
    """

    def __init__(
        self,
        loop: Loop,
        settings: FlowSettings,
        gap_check: GapCheck,
        start_positions: StartPositions,
        identity_after: Callable[[ProducerIdentity], Coroutine[Any, Any, ProducerIdentity]],
        store: Callable[[PartitionCopy], Coroutine[Any, Any, object]],
        refresh_source: Callable[[], None],
        moved: Signal,
        held: Callable[[PartitionCopy], bool],
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._gap_check = gap_check
        self._start_positions = start_positions
        self._identity_after = identity_after
        self._store = store
        self._refresh_source = refresh_source
        self._moved = moved
        self._held = held
        self._checking: set[PartitionCopy] = set()
        self._resolving: set[PartitionCopy] = set()

    async def pause(self, part: PartitionCopy, refusals: int) -> None:
        """The source refused a fetch of a partition that paused: look for its leader, and ask again after a while."""
        self._refresh_source()
        client = self._settings.consumer.client
        await self._loop.sleep(pause_s(refusals, client.retry_backoff_ms, client.retry_backoff_max_ms))
        part.resume()

    async def check(self, part: PartitionCopy, end: SourceOffset | None) -> None:
        """The source does not have what a partition asks for: find out why, then stop or go on by policy."""
        await _once(self._checking, part, lambda: self._check(part, end))

    async def _check(self, part: PartitionCopy, end: SourceOffset | None) -> None:
        backoff = Backoff(RETRY_MS, RETRY_MAX_MS)
        while not part.left and self._held(part):
            if not part.at_rest:
                await self._moved.wait(0.05)
                continue
            # It may read again, if the target lost track of it meanwhile; what it copied now would be copied twice.
            part.pause()
            before = part.acknowledged
            try:
                diverging_end = UNKNOWN if end is None else end
                position = await self._gap_check.look(part.acknowledged, part.source, part.grant, diverging_end)
            except ClusterError as error:
                part.hinder(str(error))
                await self._loop.sleep(backoff.failed())
                continue
            except TwinlogError as error:
                part.fail(error)
                return
            if end is not None and position == part.acknowledged:
                # Nothing is missing, so only the epoch was wrong: asking with it again would give the same answer.
                position = replace(position, leader_epoch=-1)
                await self._loop.sleep(RETRY_MS / 1000)
            if part.acknowledged is before and part.at_rest:
                part.seek(position)
                return
            # The target lost track of it meanwhile, and it was moved for that.

    async def resolve_again(self, part: PartitionCopy) -> None:
        """The target lost track of this producer: look at what arrived, and go on behind it.

        If that explains why, the producer goes on with the sequence numbers that the log shows; if not, under a new
        epoch (KIP-360). That is stored first, so that whoever comes next knows of it, and so is a position that went
        back because the target lost records.
        """
        await _once(self._resolving, part, lambda: self._resolve_until(part))

    async def _resolve_until(self, part: PartitionCopy) -> None:
        moved = False
        backoff = Backoff(RETRY_MS, RETRY_MAX_MS)
        # One that is let go would leave the loss to somebody who does not know of it.
        while (not part.left or part.astray is not None) and not part.failed and self._held(part):
            try:
                moved = moved or await self._resolve(part)
                if moved:
                    await self._store(part)
            except ClusterError as error:
                part.hinder(str(error))
            except TwinlogError as error:
                part.fail(error)
                return
            else:
                if moved:
                    part.stored()
                    return
            await self._loop.sleep(backoff.failed())

    async def copy_again(self, part: PartitionCopy) -> None:
        """The target lost what it had committed: find out how much, and copy it again. Nothing of a transaction is
        open."""
        await _once(self._resolving, part, lambda: self._copy_again(part))

    async def _copy_again(self, part: PartitionCopy) -> None:
        backoff = Backoff(RETRY_MS, RETRY_MAX_MS)
        while part.astray is not None and not part.failed and self._held(part):
            before = part.committed
            grant = replace(part.grant, position=before, settled=False)
            try:
                found = await self._start_positions.behind_what_is_left(grant, part.astray.end, before.next_source)
            except ClusterError as error:
                part.hinder(str(error))
                await self._loop.sleep(backoff.failed())
            except TwinlogError as error:
                part.fail(error)
            else:
                part.copy_again(replace(found, writer=None))

    async def _resolve(self, part: PartitionCopy) -> bool:
        """Move a partition behind what arrived; False when that is not known yet. Raises what keeps it from that."""
        # What was lost on the target is looked up in the stored map.
        await self._store(part)
        grant = part.grant_again()
        runs: Sequence[Run] = ()
        found: Position | None
        if part.astray is None:
            resolved = await self._start_positions.resolve([grant])
            if resolved.errors:
                raise resolved.errors[grant.source]
            found, runs = resolved.positions.get(grant.source), resolved.runs.get(grant.source, ())
            if found is None:
                return False
        else:
            while part.queue.flying:
                await self._moved.wait(0.05)
            found = await self._start_positions.behind_what_is_left(grant, part.astray.end, part.astray.next_source)
            if found.remote_topic_id != part.acknowledged.remote_topic_id:
                runs = part.astray.runs.take()
        writer = found.writer
        if writer is None or writer == part.acknowledged.writer:
            identity = await self._identity_after(part.queue.identity)
            writer = Writer(identity.producer_id, identity.epoch, 0)
        if part.failed or (part.left and part.astray is None):
            return False
        part.become(writer, found, runs)
        return True


async def _once(
    at_work: set[PartitionCopy], part: PartitionCopy, step: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Do a step for a partition, unless it is done already: a partition may ask more than once."""
    if part in at_work:
        return
    at_work.add(part)
    try:
        await step()
    finally:
        at_work.discard(part)
