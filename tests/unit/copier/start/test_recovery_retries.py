"""A partition that lost its way waits for a cluster that is away, and fails where it refuses for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.loop import VirtualLoop, VirtualWorld
from tests.unit.copier.test_recovery import SOURCE, checked_part, misplaced_part, recovery
from twinlog.copier.start.start_position import StartPosition
from twinlog.errors import ClusterError, CopyError
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.mirror.offsets.positions import Position, Writer
from twinlog.model.types import SourceOffset, TargetOffset
from twinlog.settings.client import ClientSettings


def at(source: int, target: int, **more: Any) -> Position:
    return Position(SourceOffset(source), TargetOffset(target), **more)


class Failing:
    """Does `step` after so many faults of a cluster; with `refuses` it never works."""

    def __init__(self, result: Any, faults: int = 2, *, refuses: bool = False) -> None:
        self.asked = 0
        self._result, self._faults, self._refuses = result, faults, refuses

    async def __call__(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self._refuses:
            raise CopyError("never")
        if self.asked <= self._faults:
            raise ClusterError(f"away {self.asked}")
        return self._result


@pytest.mark.parametrize("refuses", [False, True])
def test_a_check_goes_on_until_the_source_answers(refuses: bool) -> None:
    loop = VirtualLoop(VirtualWorld())
    part = checked_part()
    part.queue.clear(ProducerIdentity(1, 0))
    look = Failing(at(10, 0), refuses=refuses)
    checks = recovery(loop, part, gap_check=SimpleNamespace(find_position=look))
    loop.run(checks.check_source, part, -1)
    assert (part.failed, look.asked) == (refuses, 1 if refuses else 3)
    if refuses:
        assert part.trouble == "never"
    else:
        assert (part.acknowledged.next_source, part.paused, part.trouble) == (10, False, None)
    loop.close()


def test_a_check_that_finds_nothing_missing_asks_without_the_epoch() -> None:
    loop = VirtualLoop(VirtualWorld())
    part = checked_part()
    part.queue.clear(ProducerIdentity(1, 0))
    part.seek(at(4, 4, leader_epoch=7))
    look = Failing(part.acknowledged, 0)
    loop.run(recovery(loop, part, gap_check=SimpleNamespace(find_position=look)).check_source, part, 9)
    assert part.acknowledged == at(4, 4, leader_epoch=-1)
    loop.close()


def test_who_was_released_is_not_checked_any_more() -> None:
    loop = VirtualLoop(VirtualWorld())
    part = checked_part()
    look = Failing(None, 0)
    part.stop_reading()
    loop.run(recovery(loop, part, gap_check=SimpleNamespace(find_position=look)).check_source, part, -1)
    assert look.asked == 0
    loop.close()


def test_a_refused_fetch_is_asked_again_after_a_pause() -> None:
    loop = VirtualLoop(VirtualWorld())
    part = checked_part()
    settings = SimpleNamespace(consumer=SimpleNamespace(client=ClientSettings((), retry_backoff_ms=400)))
    refreshed: list[bool] = []
    pauses = recovery(
        *(loop, part),
        settings=settings,
        reader=SimpleNamespace(refresh=lambda: refreshed.append(part.paused)),
    )
    begun = loop.clock.monotonic()
    loop.run(pauses.pause, part, 2)
    assert 0.64 <= loop.clock.monotonic() - begun <= 0.97
    assert (refreshed, part.paused) == ([True], False)
    loop.close()


@pytest.mark.parametrize("refuses", [False, True])
def test_a_resolve_goes_on_until_the_target_answers(refuses: bool) -> None:
    loop = VirtualLoop(VirtualWorld())
    part = checked_part()
    found = StartPosition({SOURCE: at(7, 7)}, {})
    find = Failing(found, refuses=refuses)
    stores = Failing(None, 1)
    again = recovery(
        *(loop, part),
        start_positions=SimpleNamespace(find_positions=find),
        ids=SimpleNamespace(continue_identity=Failing(ProducerIdentity(1, 1), 0)),
        committer=SimpleNamespace(store_position=stores),
    )
    loop.run(again.resolve_again, part)
    assert part.failed == refuses
    if not refuses:
        assert part.acknowledged == at(7, 7, writer=Writer(1, 1, 0))
        # Twice the target was away, then it was stored as what it became.
        assert (find.asked, part.paused) == (3, False)
    loop.close()


@pytest.mark.parametrize("refuses", [False, True])
def test_what_was_lost_of_transactions_is_looked_for_until_the_target_answers(refuses: bool) -> None:
    loop = VirtualLoop(VirtualWorld())
    part = misplaced_part(transactional=True)
    part.abort(ProducerIdentity(1, 1, transactional=True))
    behind = Failing(at(2, 3), refuses=refuses)
    copies = recovery(loop, part, start_positions=SimpleNamespace(after_what_is_left=behind))
    loop.run(copies.copy_again, part)
    assert part.failed == refuses
    if not refuses:
        assert (behind.asked, part.committed, part.paused) == (3, at(2, 3), False)
    loop.close()
