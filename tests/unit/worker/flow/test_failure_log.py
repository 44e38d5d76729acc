"""Several flows that fail with the same reason have it in the log once."""

from __future__ import annotations

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.process.log_once import AGAIN_S
from twinlog.worker.flow.failure_log import FailureLog

REFUSED = "TW-NET-03: cluster east: the login was refused"


def test_a_shared_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog(VirtualClock())
    log.log_failure("east->west", REFUSED)
    log.log_failure("east->north", REFUSED)
    log.log_refusal("west->east", REFUSED)
    log.log_failure("west->north", "another reason")
    assert [record.getMessage() for record in caplog.records] == [
        "TW-NET-03: east->west: FAILED: cluster east: the login was refused",
        "TW-NET-03: east->north: FAILED, for the same reason as east->west",
        "TW-NET-03: west->east: refused, trying again, for the same reason as east->west",
        "TW-FLOW-01: west->north: FAILED: another reason",
    ]


def test_a_flow_that_fails_again_has_its_reason_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    log = FailureLog(clock)
    for flow in ("east->west", "east->north", "east->west"):
        log.log_failure(flow, REFUSED)
    assert caplog.text.count("the login was refused") == 2
    clock.sleep(AGAIN_S + 1)
    log.log_failure("east->north", REFUSED)
    assert caplog.text.count("the login was refused") == 3
