"""What workers of a group tell each other; another version of twinlog may say less."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from twinlog.connect.group.member import Assignment, RebalanceLogger, WorkerState, decode_assignment, encode_assignment
from twinlog.worker.connectors.model import ConnectorName

C = ConnectorName("c")
TOPICS = ("configs", "offsets", "status")


def test_what_is_said_is_understood() -> None:
    worker = WorkerState("http://w:1/", "w:1", frozenset({C}), TOPICS)
    assert WorkerState.decode(worker.encode()) == worker
    given = decode_assignment(encode_assignment(worker, frozenset({C}), {C: "http://w:1/"}), 3, leads=False)
    assert given.connectors == {C}
    assert (given.leader_url, given.topics, given.url_of(C)) == ("http://w:1/", TOPICS, "http://w:1/")


def test_workers_that_keep_their_state_elsewhere_are_no_group() -> None:
    worker = WorkerState("", "", topics=TOPICS)
    assert worker.shares_topics(TOPICS)
    assert not worker.shares_topics(("configs", "offsets", "another"))


def test_who_does_not_say_where_its_state_is_is_believed_to_share_it() -> None:
    old = WorkerState.decode(b'{"url":"http://w:1/","worker":"w:1","owned":["c"]}')
    assert old.owned == {C}
    assert old.shares_topics(TOPICS)
    assert WorkerState("", "", topics=TOPICS).shares_topics(decode_assignment(b"{}", 1, leads=False).topics)


NAMES = frozenset(map(ConnectorName, ("a", "b")))
GIVEN = Assignment(3, "http://one/", leads=True, connectors=NAMES, owners={})


def test_what_is_new_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rebalances = RebalanceLogger("workers")
    less = replace(GIVEN, generation=5, connectors=frozenset({ConnectorName("b")}))
    for one in (None, GIVEN, GIVEN, replace(GIVEN, generation=4), less, None, less):
        rebalances.report(one)
    rebalances.report(Assignment(6, "http://two/", leads=False, connectors=frozenset(), owners={}))
    assert caplog.messages == [
        "joined group workers at generation 3, leader http://one/ (this worker); assigned connectors: 2; new: a, b",
        "joined group workers at generation 5, leader http://one/ (this worker); assigned connectors: 1; revoked: a",
        "joined group workers at generation 6, leader http://two/; assigned connectors: 0; revoked: b",
    ]
