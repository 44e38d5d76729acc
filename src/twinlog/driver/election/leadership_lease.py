"""For how long a process is certainly the only one that runs a flow."""

from __future__ import annotations

from twinlog.kafka.coordinator.membership import REBALANCE_S

MARGIN_S = 1.0
"""How long before its session ends a leader counts as leader no more."""


class LeadershipLease:
    """Until when this process is the leader whatever happens, by what the coordinator has told it.

    The coordinator counts a session from when it heard a heartbeat, which is after it was sent; so another leader
    comes at the earliest one session after the sending. It also replaces a leader that does not join again, or does
    not confirm what it joined, within the time for a rebalance, which cannot have begun before the last heartbeat of a
    settled generation.
    """

    def __init__(self) -> None:
        self._member_until = self._settled_until = float("-inf")

    def told(self, sent_at: float, session_s: float, *, settled: bool) -> None:
        """A request sent at `sent_at` was answered as a member's; `settled` when no rebalance was under way."""
        self._member_until = max(self._member_until, sent_at + session_s)
        if settled:
            self._settled_until = max(self._settled_until, sent_at + REBALANCE_S)

    def gone(self) -> None:
        """Another process may lead now."""
        self._member_until = self._settled_until = float("-inf")

    @property
    def until(self) -> float:
        """In monotonic seconds."""
        return min(self._member_until, self._settled_until) - MARGIN_S
