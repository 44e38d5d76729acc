"""The JVM that evaluates the transform of a copier is lost, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from tests import transforms
from tests.copier_reports import copy_partitions
from tests.unit.copier.changing import ODD, VALUES, at_end
from tests.unit.copier.copied import part, world
from twinlog.errors import EngineLostError
from twinlog.settings.transform import TransformSettings


class Lost:
    """Stands for SQL whose JVM is killed when it is called for the so manieth time, and which another one follows."""

    def __init__(self, lost_at: int = 0) -> None:
        self.ready = True
        self.why = "Spark's JVM for transform.sql was killed by SIGKILL; a new JVM is started"
        self.lost_at = lost_at
        self.calls = 0

    @property
    def trouble(self) -> str | None:
        return None if self.ready else self.why

    def __call__(self, rows: Any) -> Any:
        self.calls += 1
        if self.calls == self.lost_at:
            self.ready = False
        if not self.ready:
            raise EngineLostError(str(self.trouble))
        return transforms.odd(rows)

    def close(self) -> None:
        self.ready = False


@pytest.mark.parametrize("mode", ["disabled", "enabled"])
def test_a_lost_jvm_is_waited_for_and_skips_no_record(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = Lost(3)
    monkeypatch.setattr("twinlog.transforms.loader.sql_transform", lambda _: sql)
    settings = TransformSettings(sql="SELECT value FROM records", tolerance="all", dead_letter_topic="dead")
    with world(transform=settings, exactly_once=mode) as here:
        copier = here.begin()
        for at in range(0, 40, 4):
            here.feed(VALUES[at : at + 4])
            here.pass_by(0.5)
        held = copier.partitions[part()]
        assert held.trouble == ("transform: Spark's JVM for transform.sql was killed by SIGKILL; a new JVM is started")
        assert len(here.copied(committed=mode == "enabled")) < len(ODD)
        asked = sql.calls
        here.pass_by(30)
        assert sql.calls == asked
        sql.ready = True
        here.until(lambda: here.copied(committed=mode == "enabled") == ODD and at_end(here))
        assert held.trouble is None
        assert here.failures == []
        assert [kind for kind, _ in here.events] == ["transform"]
        assert "no record is skipped for it" in here.events[0][1]
        assert not here.target.topics.count("dead")


def test_a_crash_while_the_jvm_is_lost_is_gone_on_from_once_there_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """What arrived after the position is found by what the query makes of the source."""
    sql = Lost()
    monkeypatch.setattr("twinlog.transforms.loader.sql_transform", lambda _: sql)
    with world(transform=TransformSettings(sql="SELECT value FROM records")) as here:
        here.feed(VALUES[:6])
        copier = here.begin()
        here.until(lambda: (found := here.stored()) is not None and found.next_source == 6)
        old = here.stored()
        here.feed(VALUES[6:12])
        here.until(lambda: here.copied() == ODD[:6])
        here.crash(copier)
        sql.ready = True
        again = here.open()
        sql.ready = False
        here.loop.start(copy_partitions, again, [here.grant(position=old)])
        here.pass_by(20)
        assert part() not in again.partitions
        assert part() in again.held_back
        sql.ready = True
        here.feed(VALUES[12:])
        here.until(lambda: here.copied() == ODD)
        here.pass_by(10)
        assert here.copied() == ODD
        assert here.failures == []


def test_that_another_jvm_does_not_start_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark was replaced under a flow, for example."""
    sql = Lost(1)
    monkeypatch.setattr("twinlog.transforms.loader.sql_transform", lambda _: sql)
    with world(transform=TransformSettings(sql="SELECT value FROM records"), partitions=3) as here:
        here.begin(*map(here.grant, range(3)))
        for number in range(3):
            here.feed(VALUES, number=number)
        here.pass_by(5)
        sql.why = "transform.sql is impossible to evaluate by PySpark 4.9.0"
        here.pass_by(600)
        first, then = [text for kind, text in here.events if kind == "transform"]
        assert "was killed by SIGKILL" in first
        assert then.endswith(
            ": transform: transform.sql is impossible to evaluate by PySpark 4.9.0; no record is skipped for it"
        )
