"""Whose switchover it is: a process that may be alive is not disturbed, one that is gone holds nobody up."""

from __future__ import annotations

import os
import socket
import time

import pytest

from twinlog.model.types import Alias
from twinlog.ops.switchover.entries import Entries, Run
from twinlog.ops.switchover.model import Ends, Kind, Options, SwitchoverState, UnderWayError
from twinlog.ops.switchover.session import ALIVE_S, require_free

HERE = socket.gethostname()


def entries(owner: str, silent_s: float = 0.0, state: SwitchoverState = SwitchoverState.RUNNING) -> Entries:
    seen_ms = int((time.time() - silent_s) * 1000)
    return Entries(Run("r", Ends(Alias("a"), Alias("b")), Options(Kind.PLANNED), state, seen_ms, owner, seen_ms))


@pytest.mark.parametrize(
    "free",
    [
        Entries(),
        entries("elsewhere 1", state=SwitchoverState.DONE),
        entries("elsewhere 1", silent_s=2 * ALIVE_S),
        # A container that was started anew has its host's name and its number again.
        entries(f"{HERE} {os.getpid()}"),
    ],
)
def test_it_is_free(free: Entries) -> None:
    require_free(free)


@pytest.mark.parametrize("owner", ["elsewhere 1", f"{HERE} {os.getppid()}"])
def test_another_process_is_named(owner: str) -> None:
    with pytest.raises(UnderWayError, match=r"works on switchover a->b .* wait for it, or give --take-over"):
        require_free(entries(owner))
