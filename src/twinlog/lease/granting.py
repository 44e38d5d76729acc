"""Moves partitions to the copiers that the plan names: asks their holders to release them, waits, and grants."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from twinlog.clock import Clock
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told
from twinlog.lease.channel import VALID_S
from twinlog.lease.fencing import TransactionalIds
from twinlog.lease.ledger import CopierSession, LeaseState
from twinlog.lease.messages import Grant, Grants, Release, Stop
from twinlog.model.types import TopicPartition

log = logging.getLogger(__name__)

RELEASE_S = 4.0
"""The driver closes the connection of a copier whose release takes longer. Before it grants the partitions, it waits
until the copier's right to append has expired, see `VALID_S`."""

GRANTED_AT_ONCE = 16
"""How many copiers get their grants at the same time; a copier may have to wait for another copier's late release."""


class PartitionGranter:
    """Moves the partitions of a flow between copiers, on threads of its own; `ledger` belongs to `Leases`."""

    def __init__(
        self,
        flow: str,
        ledger: LeaseState,
        grants: Callable[[Sequence[TopicPartition]], list[Grant]],
        failed: Callable[[str, str], None],
        ids: TransactionalIds | None,
        clock: Clock,
    ) -> None:
        self._flow = flow
        self._ledger = ledger
        self._grants = grants
        self._failed = failed
        self._ids = ids
        self._clock = clock
        self._granters = ThreadPoolExecutor(GRANTED_AT_ONCE, thread_name_prefix=f"grants {flow}")

    def stop(self) -> None:
        """Stop granting."""
        self._granters.shutdown(wait=False)

    def submit(self, session: CopierSession) -> None:
        """Grant on another thread, because the look-up of grants waits for the clusters' answers."""

        def grant() -> None:
            try:
                self._grant_share(session)
            except TwinlogError as error:
                self._failed(type(error).__name__, told(error, "TW-FLOW-01"))
            except Exception as error:
                log.exception("TW-FAULT-01: %s: partitions of copier %s", self._flow, session.name)
                self._failed(type(error).__name__, told(error, "TW-FAULT-01"))

        try:
            self._granters.submit(grant)
        except RuntimeError:
            # The granter was stopped meanwhile.
            session.send(Stop())

    def _grant_share(self, session: CopierSession) -> None:
        """Grant a copier the missing partitions of its share, once other copiers have released them.

        The copier continues to copy partitions outside its share until another copier needs them.
        """
        with self._ledger.changed:
            version = self._ledger.version
            wanted = self._ledger.shares.get_partitions(session)
            if wanted is None:
                return
            others = self._ledger.holdings.holders(wanted) - {session}
        for other in others:
            self.ask_release(other, wanted, version)
        self._wait_for_release(session, wanted)
        with self._ledger.changed:
            if version != self._ledger.version or session.closed or session not in self._ledger.sessions:
                return
            missing, drained = self._ledger.holdings.assign_partitions(session, wanted)
            lease = self._ledger.lease
        if not missing:
            return
        grants = [replace(grant, drained=grant.source in drained) for grant in self._grants(missing)]
        with session.order:
            with self._ledger.changed:
                # Meanwhile a later plan may have asked for some of the partitions back.
                still = session.held - session.leaving
            granted = [grant for grant in grants if grant.source in still]
            session.send(Grants(lease, tuple(granted)))
        log.debug("%s: copier %s is granted %d partitions", self._flow, session.name, len(granted))

    def _wait_for_release(self, session: CopierSession, wanted: frozenset[TopicPartition]) -> None:
        """Wait until all other copiers have released `wanted`; close the connections of copiers that are too slow."""

        with self._ledger.changed:
            in_the_way = self._ledger.holdings.in_the_way
            if self._clock.wait_for(self._ledger.changed, lambda: not in_the_way(session, wanted), RELEASE_S):
                return
            slow = in_the_way(session, wanted)
            for other in slow:
                log.warning(
                    "TW-LEASE-02: %s: copier %s does not release its partitions, its connection is closed",
                    *(self._flow, other.name),
                )
                other.close()
                if self._ids is not None:
                    self._ids.mark_lost(other.name)
            # A copier ends with its line. A copier that misses the end stops appending when its last heartbeat is too
            # old.
            until = max(other.last_beat for other in slow) + VALID_S
            self._clock.wait_for(
                self._ledger.changed, lambda: session.closed, max(0.0, until - self._clock.monotonic())
            )

    def ask_release(self, session: CopierSession, parts: Set[TopicPartition], version: int) -> None:
        """Ask a copier to release partitions, unless there is a newer plan, which asks by itself."""
        with session.order:
            with self._ledger.changed:
                if version != self._ledger.version:
                    return
                asked = (session.held & parts) - session.leaving
                session.leaving |= asked
            if asked:
                session.send(Release(tuple(sorted(asked))))
                log.debug("%s: copier %s is asked to release %d partitions", self._flow, session.name, len(asked))
