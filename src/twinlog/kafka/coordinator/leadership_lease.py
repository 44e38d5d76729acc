"""The time for which a process is certainly the only process that runs a flow."""

from __future__ import annotations

from twinlog.clock import LONG_AGO
from twinlog.kafka.coordinator.membership import REBALANCE_S

MARGIN_S = 1.0
"""The seconds before the end of its session from which on a leader counts as replaced."""


class LeadershipLease:
    """The time until which this process is certainly the leader, by the answers of the coordinator.

    The coordinator starts a session when a heartbeat arrives, which is after its sending. So another leader comes at
    the earliest a session timeout after the sending. The coordinator also replaces a leader that fails to join again,
    or fails to confirm its join, within the time for a rebalance. This rebalance begins at the earliest with the last
    heartbeat of a stable generation.
    """

    def __init__(self, rebalance_s: float = REBALANCE_S) -> None:
        """`rebalance_s` is the time for a rebalance, in seconds, with which this process joins."""
        self._rebalance_s = rebalance_s
        self._member_until = self._stable_until = LONG_AGO

    def extend_lease(self, sent_at: float, session_s: float, *, stable: bool) -> None:
        """Extend the lease by an accepted request that was sent at `sent_at`; `stable` outside of a rebalance."""
        self._member_until = max(self._member_until, sent_at + session_s)
        if stable:
            self._stable_until = max(self._stable_until, sent_at + self._rebalance_s)

    def expire_lease(self) -> None:
        """End the lease: another process may lead now."""
        self._member_until = self._stable_until = LONG_AGO

    @property
    def until(self) -> float:
        """The end of the lease in monotonic seconds."""
        return min(self._member_until, self._stable_until) - MARGIN_S
