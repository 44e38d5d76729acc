"""Whose switchover it is: a process that may be alive is not disturbed, one that is gone holds nobody up."""

from __future__ import annotations

import os
import socket
import time

import pytest

from twinlog.model.types import Alias
from twinlog.ops.switchover.journal import JournalEntries, SwitchoverRun
from twinlog.ops.switchover.model import (
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
    SwitchoverState,
    UnderWayError,
)
from twinlog.ops.switchover.session import ALIVE_S, require_free

HERE = socket.gethostname()


def entries(owner: str, silent_s: float = 0.0, state: SwitchoverState = SwitchoverState.RUNNING) -> JournalEntries:
    seen_ms = int((time.time() - silent_s) * 1000)
    return JournalEntries(
        SwitchoverRun(
            "r",
            SwitchoverDirection(Alias("a"), Alias("b")),
            SwitchoverOptions(SwitchoverKind.PLANNED),
            state,
            seen_ms,
            owner,
            seen_ms,
        )
    )


@pytest.mark.parametrize(
    "free",
    [
        JournalEntries(),
        entries("elsewhere 1", state=SwitchoverState.DONE),
        entries("elsewhere 1", silent_s=2 * ALIVE_S),
        # A container that was started anew has its host's name and its number again.
        entries(f"{HERE} {os.getpid()}"),
    ],
)
def test_it_is_free(free: JournalEntries) -> None:
    require_free(free)


@pytest.mark.parametrize("owner", ["elsewhere 1", f"{HERE} {os.getppid()}"])
def test_another_process_is_named(owner: str) -> None:
    with pytest.raises(UnderWayError, match=r"works on switchover a->b .* wait for it, or give --take-over"):
        require_free(entries(owner))
