"""An operator reads in the log who leads a group and what a worker was given, once for each change."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from twinlog.connect.group.member import Assignment
from twinlog.connect.group.rebalances import RebalanceLogger
from twinlog.connectors.model import ConnectorName

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
