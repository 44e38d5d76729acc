"""The decision on the target that a micro-batch counts: stored as an offset of a group of the query's own.

The offset is the micro-batch's number. Its metadata names the producer of each part, so that the next run can commit
the remaining parts. Another group records the progress of the commit for years, as brokers forget the decision after a
week. The reasons are in docs/decisions/0020.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from struct import Struct
from struct import error as struct_error
from typing import Literal

from twinlog.errors import ClusterError
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.coordinator.transactions import ProducerEpoch, TransactionCoordinator, TransactionOffsets
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import CommittedOffset, GroupOffsets
from twinlog.model.types import GroupId, TopicPartition

PIECE = 3_900
"""Characters of metadata in a group's offset: brokers take 4096 by default (`offset.metadata.max.bytes`)."""

UNSTABLE_S = 0.02

KEPT_MS = 10 * 365 * 86_400_000
"""How long brokers keep a note, in milliseconds: a query may be started again after weeks."""

State = Literal["decided", "committed"]

_HOLDER = Struct(">qh")


@dataclass(frozen=True, slots=True)
class CommitDecision:
    """The decision that micro-batch `number` counts.

    `holders` are the producers of its parts, with `NOBODY` for a part that lacks a transaction. `where` is the
    partition of a decision that was read: a further decision about the same micro-batch replaces it there.
    """

    number: int
    holders: tuple[ProducerEpoch, ...]
    where: TopicPartition | None = None


@dataclass(frozen=True, slots=True)
class DecisionNote:
    """The progress of a micro-batch: decided, or completely committed."""

    number: int
    state: State


def encode_decision(decision: CommitDecision) -> list[str]:
    """The metadata of a decision, in pieces: the first piece begins with the number of pieces."""
    packed = zlib.compress(b"".join(_HOLDER.pack(*holder) for holder in decision.holders), 9)
    text = base64.b64encode(packed).decode()
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
    return [f"1:{len(pieces)}:{pieces[0]}", *pieces[1:]]


def pieces_of(metadata: str) -> int:
    """The number of pieces, from the first piece. Raises ValueError for another form."""
    version, count, _ = metadata.split(":", 2)
    if version != "1":
        raise ValueError
    return int(count)


def decode_decision(number: int, pieces: Sequence[str]) -> CommitDecision:
    """The decision in these pieces. Raises ValueError for another form."""
    text = pieces[0].split(":", 2)[2] + "".join(pieces[1:])
    try:
        packed = zlib.decompress(base64.b64decode(text, validate=True))
        return CommitDecision(number, tuple(ProducerEpoch(*found) for found in _HOLDER.iter_unpack(packed)))
    except (zlib.error, struct_error) as error:
        raise ValueError(str(error)) from None


class CommitDecisions:
    """The decisions of a query, whose group is `name`, on a cluster. Raises ClusterError for failures that may pass."""

    def __init__(self, client: ClusterClient, name: str) -> None:
        self._client = client
        self._name = name
        self._groups = GroupAdmin(client)

    async def last(self) -> CommitDecision | None:
        """The last decision, None before the first decision or after its expiry. Waits for a decision in flight."""
        found = _latest(await self._offsets(self._group(0)))
        if found is None:
            return None
        where, (number, first) = found
        try:
            pieces = [first]
            for place in range(1, pieces_of(first)):
                other = _latest(await self._offsets(self._group(place)))
                if other is None:
                    # The offsets of each group expire separately.
                    return None
                if other[1].offset != number:
                    raise ValueError
                pieces.append(other[1].metadata)
            return replace(decode_decision(number, pieces), where=where)
        except ValueError:
            raise ClusterError(
                f"cluster {self._client.alias}: group {self._name} has an offset of a foreign program; delete the "
                "group, or choose another name with option kafka.transactional.id"
            ) from None

    async def commit_decision(
        self, decision: CommitDecision, root: TransactionCoordinator, holder: ProducerEpoch, somewhere: TopicPartition
    ) -> None:
        """Have the transaction of the `root` write the decision, and commit it; the offset is stored for `somewhere`.

        Raises FencedError when another producer has become the root meanwhile.
        """
        for place, piece in enumerate(encode_decision(decision)):
            group = self._group(place)
            await root.add_group(holder, group)
            offsets = {somewhere: CommittedOffset(decision.number, piece)}
            await TransactionOffsets(self._client, group).commit(root.transactional_id, holder, offsets)
        if not await root.end(holder, commit=True):
            raise ClusterError(f"cluster {self._client.alias}: transaction {root.transactional_id} ended by itself")

    async def write_note(self, decision: CommitDecision, state: State, somewhere: TopicPartition) -> None:
        """Note the progress of a decided micro-batch: the next micro-batch begins after its complete commit."""
        noted = {self._committed: {somewhere: CommittedOffset(decision.number, state)}}
        refused = await self._groups.commit(noted, KEPT_MS)
        for code in refused.get(self._committed, {}).values():
            self._check(self._committed, code)

    async def noted(self) -> DecisionNote | None:
        """The last note, which outlives the decision."""
        offsets = await self._offsets(self._committed)
        last = max((one.offset for one in offsets.values()), default=None)
        if last is None:
            return None
        committed = any(one.offset == last and one.metadata == "committed" for one in offsets.values())
        return DecisionNote(last, "committed" if committed else "decided")

    @property
    def _committed(self) -> GroupId:
        return GroupId(f"{self._name}.committed")

    def _group(self, place: int) -> GroupId:
        return GroupId(self._name if not place else f"{self._name}.{place}")

    def _check(self, group: GroupId, code: int) -> None:
        if error_codes.refused(code):
            raise self._client.lacks("READ", f"group {group}", "knowing which micro-batches were written")
        raise ClusterError(f"cluster {self._client.alias}: group {group}: {error_codes.explain(code)}")

    async def _offsets(self, group: GroupId) -> GroupOffsets:
        give_up_at = self._client.loop.clock.monotonic() + self._client.settings.request_timeout_ms / 1000
        while True:
            found, wrong = await self._groups.stable_offsets([group])
            if group in found:
                return found[group]
            code = wrong[group]
            if code != Code.UNSTABLE_OFFSET_COMMIT or self._client.loop.clock.monotonic() > give_up_at:
                self._check(group, code)
            await self._client.loop.sleep(UNSTABLE_S)


def _latest(offsets: GroupOffsets) -> tuple[TopicPartition, CommittedOffset] | None:
    """The offset with the highest number: each micro-batch stores its decision for a partition that it wrote to."""
    return max(offsets.items(), key=lambda one: one[1].offset, default=None)
