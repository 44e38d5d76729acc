"""Switchovers in memory whose process is killed, and their options."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.ops.switchover.scripted import P0, P1, Brokers, Kill, KilledError, ScriptedJournal, ScriptedWorld
from twinlog.mirror.topics.journal_keys import SwitchoverState
from twinlog.model.types import Alias
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.model import SwitchoverDirection, SwitchoverKind, SwitchoverOptions

A_TO_B, B_TO_A = SwitchoverDirection(Alias("a"), Alias("b")), SwitchoverDirection(Alias("b"), Alias("a"))
PLANNED = SwitchoverOptions(SwitchoverKind.PLANNED, near=100)
BOTH_NAMINGS = pytest.mark.parametrize("keeps_names", [True, False], ids=["identity", "prefix"])


def machine(brokers: Brokers, kill: Kill | None = None, told: list[str] | None = None) -> SwitchoverMachine:
    kill = kill or Kill()

    def show(step: str, words: str) -> None:
        if told is not None:
            told.append(f"{step}: {words}")

    return SwitchoverMachine(ScriptedWorld(brokers, kill), ScriptedJournal(brokers, kill), "host 1", show)


def killed_everywhere(
    make: Callable[[], Brokers], act: Callable[[Brokers, Kill], JournalEntries], *, calls: int = 10
) -> list[Brokers]:
    """What comes of it with the process killed at its first call, its second and so on, and then called again."""
    clean = Kill()
    act(make(), clean)
    assert clean.calls > calls
    found = []
    for at in range(1, clean.calls + 1):
        for after in (False, True):
            brokers, kill = make(), Kill(at, after)
            try:
                act(brokers, kill)
            except KilledError:
                act(brokers, Kill())
            found.append(brokers)
    return found


def stopped_in_watch(brokers: Brokers) -> None:
    """A switchover whose process is gone when producers may write to the target, and the source is still looked at."""
    world, journal = ScriptedWorld(brokers, Kill()), ScriptedJournal(brokers, Kill())

    def show(step: str, words: str) -> None:
        if step == "watch":
            raise KilledError

    with pytest.raises(KilledError):
        SwitchoverMachine(world, journal, "host 1", show).run(PLANNED)


def require_moved(brokers: Brokers) -> None:
    entries = ScriptedJournal(brokers, Kill()).entries
    assert entries.run is not None
    assert entries.run.state is SwitchoverState.DONE
    assert brokers.fenced
    # Nothing came after the cut, everything before it is copied.
    cut = (entries.done("settle") or {})["cut"]["orders"]
    assert cut == {str(where.partition): end for where, end in brokers.logs.items()}
    assert brokers.copied == brokers.logs
    remote = "orders" if brokers.keeps_names else "a.orders"
    assert {(where.topic, where.partition): offset for where, offset in brokers.committed.items()} == {
        (remote, 0): 1030,
        (remote, 1): 1020,
    }
    rows = (entries.done("prove") or {})["rows"]
    assert [(row["end"], row["copied"], row["to_end"] - 1000) for row in rows] == [
        (brokers.logs[where],) * 3 for where in (P0, P1)
    ]
    assert brokers.open_copies == (["orders"] if brokers.keeps_names else [])
    if brokers.keeps_names:
        assert brokers.seeded == {("source", where): end + 1000 for where, end in brokers.logs.items()}
    else:
        assert brokers.seeded == {}
        assert brokers.created == {"orders"}
