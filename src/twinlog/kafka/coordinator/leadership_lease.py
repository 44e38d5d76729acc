"""For how long a process is certainly the only one that runs a flow."""

from __future__ import annotations

from twinlog.clock import LONG_AGO
from twinlog.kafka.coordinator.membership import REBALANCE_S

MARGIN_S = 1.0
"""How long before the end of its session a leader no longer counts as leader."""


class LeadershipLease:
    """Until when this process is certainly the leader, by the answers of the coordinator.

    The coordinator counts a session from when it got a heartbeat, which is after it was sent; so another leader
    comes at the earliest one session after the sending. It also replaces a leader that does not join again, or does
    not confirm what it joined, within the time for a rebalance, which cannot have begun before the last heartbeat of a
    stable generation.
    """

    def __init__(self, rebalance_s: float = REBALANCE_S) -> None:
        """`rebalance_s` is the time for a rebalance with which this process joins."""
        self._rebalance_s = rebalance_s
        self._member_until = self._stable_until = LONG_AGO

    def extend_lease(self, sent_at: float, session_s: float, *, stable: bool) -> None:
        """The coordinator accepted a request sent at `sent_at`; `stable` when no rebalance was under way."""
        self._member_until = max(self._member_until, sent_at + session_s)
        if stable:
            self._stable_until = max(self._stable_until, sent_at + self._rebalance_s)

    def expire_lease(self) -> None:
        """Another process may lead now."""
        self._member_until = self._stable_until = LONG_AGO

    @property
    def until(self) -> float:
        """In monotonic seconds."""
        return min(self._member_until, self._stable_until) - MARGIN_S
