"""Whether a cluster answers, by what becomes of the questions that it is asked anyway."""

from __future__ import annotations

import pytest

from twinlog.kafka.net.contact import SILENT_S, SURE_S, Contact


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def contact(clock: Clock) -> Contact:
    return Contact(lambda: "refused", clock)


def test_nothing_is_known_before_the_first_answer(contact: Contact) -> None:
    reach = contact.reach()
    assert (reach.out, reach.heard_s) == (False, -1.0)
    assert contact.heard_s == float("inf")


def test_what_fails_is_an_outage_once_it_lasts(contact: Contact, clock: Clock) -> None:
    contact.record_answer(contact.record_request(1))
    clock.now += 5
    contact.record_failure(contact.record_request(1))
    assert not contact.reach().out
    clock.now += SURE_S
    contact.record_failure(contact.record_request(None))
    reach = contact.reach()
    assert (reach.out_s, reach.heard_s, reach.why) == (SURE_S, 5 + SURE_S, "refused")
    contact.record_answer(contact.record_request(2))
    assert not contact.reach().out


def test_a_question_that_stays_open_is_an_outage_since_it_was_asked(contact: Contact, clock: Clock) -> None:
    contact.record_answer(contact.record_request(1))
    number = contact.record_request(1, 0.5)
    clock.now += SILENT_S
    assert not contact.reach().out
    clock.now += 1
    assert contact.reach().out_s == SILENT_S + 1
    assert contact.reach().why == "no answer"
    clock.now += 26
    contact.record_failure(number)
    clock.now += SURE_S
    assert contact.reach().out_s == SILENT_S + 27 + SURE_S


def test_one_silent_broker_is_no_outage_while_others_answer(contact: Contact, clock: Clock) -> None:
    contact.record_request(1)
    for _ in range(20):
        clock.now += 1
        contact.record_answer(contact.record_request(2))
        assert not contact.reach().out
    clock.now += SILENT_S + 1
    assert contact.reach().out_s == SILENT_S + 1


def test_a_dropped_request_does_not_count_as_unanswered(contact: Contact, clock: Clock) -> None:
    contact.drop_request(contact.record_request(1))
    clock.now += 60
    assert not contact.reach().out


def test_only_data_connections_count_for_the_age_of_data(contact: Contact, clock: Clock) -> None:
    contact.record_answer(contact.record_request(1))
    assert contact.data_at(1) is None
    clock.now += 1
    contact.record_answer(contact.record_request(1), data=True)
    assert contact.data_at(1) == clock.now


def test_the_oldest_open_question_is_what_is_waited_for(contact: Contact, clock: Clock) -> None:
    assert contact.waits() is None
    first = contact.record_request(2)
    clock.now += 4
    contact.record_request(None)
    assert contact.waits() == (2, 4.0)
    contact.record_answer(first)
    assert contact.waits() == (None, 0.0)
