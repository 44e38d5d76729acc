"""Which copier holds which partitions: one at most holds each, from its grant until it has released it or is gone."""

from __future__ import annotations

from collections.abc import Collection, Set

from twinlog.lease.copier_session import CopierSession
from twinlog.model.types import TopicPartition


class Holdings:
    """What the copiers of a flow hold, and for each partition without a holder, whether its last copier drained it.

    Used under the lock of the leases.
    """

    def __init__(self) -> None:
        self._holder: dict[TopicPartition, CopierSession] = {}
        self._drained: set[TopicPartition] = set()

    def give(
        self, session: CopierSession, wanted: Set[TopicPartition]
    ) -> tuple[list[TopicPartition], set[TopicPartition]]:
        """A copier holds `wanted` from now on; returns what of that it did not hold, and what is drained of it."""
        missing = sorted(wanted - session.held)
        session.held |= set(missing)
        self._holder.update(dict.fromkeys(missing, session))
        drained = self._drained & set(missing)
        self._drained -= drained
        return missing, drained

    def released(
        self, session: CopierSession, partitions: Collection[TopicPartition], undrained: Collection[TopicPartition]
    ) -> None:
        """A copier has released partitions; appends to `undrained` may yet arrive."""
        released = session.held.intersection(partitions)
        self._forget(session, released)
        self._drained |= released.difference(undrained)

    def lost(self, session: CopierSession) -> None:
        """A copier is gone; whatever it still held may get late appends."""
        self._drained -= session.held
        self._forget(session, set(session.held))

    def holders(self, parts: Set[TopicPartition]) -> set[CopierSession]:
        """Who holds any of these."""
        return {self._holder[part] for part in parts if part in self._holder}

    def in_the_way(self, session: CopierSession, wanted: Set[TopicPartition]) -> set[CopierSession]:
        """Whose release a copier waits for before it gets `wanted`; its own, too, where that was asked for."""
        others = self.holders(wanted) - {session}
        return others | {session} if session.leaving & wanted else others

    def _forget(self, session: CopierSession, parts: Set[TopicPartition]) -> None:
        session.held -= parts
        session.leaving -= parts
        for part in parts:
            if self._holder.get(part) is session:
                del self._holder[part]
