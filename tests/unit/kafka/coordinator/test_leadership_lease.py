"""A leader knows until when no other process can be elected, by nothing but what it sent and was answered."""

from __future__ import annotations

from twinlog.kafka.coordinator.group_session import MARGIN_S, LeadershipLease
from twinlog.kafka.coordinator.membership import REBALANCE_S

SESSION_S = 6.0
NEVER = float("-inf")


def test_no_lease_begins_before_a_generation_is_stable() -> None:
    lease = LeadershipLease()
    assert lease.until == NEVER
    lease.extend_lease(100.0, SESSION_S, stable=False)
    assert lease.until == NEVER


def test_a_session_counts_from_the_sending_and_ends_early() -> None:
    lease = LeadershipLease()
    lease.extend_lease(100.0, SESSION_S, stable=True)
    assert lease.until == 100.0 + SESSION_S - MARGIN_S


def test_a_late_answer_to_an_earlier_heartbeat_takes_nothing_away() -> None:
    lease = LeadershipLease()
    lease.extend_lease(101.0, SESSION_S, stable=True)
    lease.extend_lease(100.0, SESSION_S, stable=True)
    assert lease.until == 101.0 + SESSION_S - MARGIN_S


def test_heartbeats_keep_a_leader_through_a_rebalance_but_not_for_longer_than_the_coordinator_waits() -> None:
    lease = LeadershipLease()
    lease.extend_lease(100.0, SESSION_S, stable=True)
    for passed in range(1, 80):
        lease.extend_lease(100.0 + passed, SESSION_S, stable=False)
        # Who has not joined again by then is replaced.
        assert lease.until == min(100.0 + passed + SESSION_S, 100.0 + REBALANCE_S) - MARGIN_S


def test_the_next_stable_generation_extends_the_lease() -> None:
    lease = LeadershipLease()
    lease.extend_lease(100.0, SESSION_S, stable=True)
    lease.extend_lease(155.0, SESSION_S, stable=False)
    lease.extend_lease(156.0, SESSION_S, stable=True)
    assert lease.until == 156.0 + SESSION_S - MARGIN_S


def test_what_was_proven_for_an_earlier_time_as_leader_does_not_count() -> None:
    lease = LeadershipLease()
    lease.extend_lease(100.0, SESSION_S, stable=True)
    lease.expire_lease()
    lease.extend_lease(101.0, SESSION_S, stable=False)
    assert lease.until == NEVER


def test_the_coordinator_waits_as_long_as_this_process_asked_it_to() -> None:
    lease = LeadershipLease(rebalance_s=2.0)
    lease.extend_lease(100.0, SESSION_S, stable=True)
    for passed in range(1, 5):
        lease.extend_lease(100.0 + passed, SESSION_S, stable=False)
        assert lease.until == 102.0 - MARGIN_S
