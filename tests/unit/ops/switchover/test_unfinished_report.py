"""`--report` has its files also when the command ends early, with the reason."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.scripted import Brokers, Kill, KilledError, ScriptedJournal, ScriptedWorld
from twinlog.console.data_format import DataFormat
from twinlog.errors import RefusedError
from twinlog.ops.switchover import session
from twinlog.ops.switchover.machine import SwitchoverMachine
from twinlog.ops.switchover.session import SwitchoverArguments, conduct


class EndedError(Exception):
    """The process has ended with a code."""


class Conducted:
    """Runs the command on two clusters in memory."""

    def __init__(self, brokers: Brokers, report: Path) -> None:
        self.brokers = brokers
        self.path = report
        self.codes: list[int] = []

    def run(self, at_most_s: float = 600.0, near: int = 100, mode: str = "run") -> dict[str, Any]:
        """Run to the end; returns the report of the file."""
        asked = SwitchoverArguments(mode, "planned", None, near, at_most_s, False, "", self.path, DataFormat.TABLE)
        with pytest.raises(EndedError):
            conduct(asked, self, self, self, ())  # type: ignore[arg-type]
        return self.read()

    @property
    def source(self) -> str:
        return "a"

    def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.with_name("handover.json").read_text("utf-8"))
        text = self.path.with_name("handover.md").read_text("utf-8")
        assert text.startswith(f"# Switchover a -> b: {found['state']}\n")
        assert all(line in text for line in found["next"])
        return found


@pytest.fixture
def conducted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conducted:
    made = Conducted(Brokers(A_TO_B), tmp_path / "handover")

    class World(ScriptedWorld):
        def __init__(self, *_: object, **_options: object) -> None:
            super().__init__(made.brokers, Kill())
            self.journal = ScriptedJournal(made.brokers, Kill())

        def connect(self, *_: object, **_options: object) -> None:
            pass

    def claim(world: World, show: Any, **_options: object) -> SwitchoverMachine:
        return SwitchoverMachine(world, world.journal, "me 1", show)

    def end(code: int) -> NoReturn:
        made.codes.append(code)
        raise EndedError

    monkeypatch.setattr(session, "LiveClusters", World)
    monkeypatch.setattr(session, "claim_machine", claim)
    monkeypatch.setattr(session, "end_process", end)
    monkeypatch.setattr(session.signals, "call", lambda _stop: None)
    return made


def test_a_refused_pre_flight_is_reported(conducted: Conducted) -> None:
    conducted.brokers.problems = ("no leader", "no copy")
    found = conducted.run()
    assert conducted.codes == [1]
    assert (found["state"], found["run"]) == ("refused", None)
    assert found["failed"] == ["no leader", "no copy"]
    assert found["next"] == [*found["failed"], "nothing was changed: mend that, and run the same command again"]
    # `--status` has the same report, as a file, too.
    conducted.path.with_name("handover.json").unlink()
    again = conducted.run(mode="status")
    assert (conducted.codes, again) == ([1, 0], {**found, "began": again["began"], "steps": again["steps"]})
    conducted.brokers.problems = ()
    assert conducted.run()["state"] == "done"
    assert conducted.run(mode="status")["state"] == "done"


def test_a_refused_switchover_leaves_the_report_of_the_switchover_before_it(conducted: Conducted) -> None:
    conducted.run()
    carried = SwitchoverMachine(
        ScriptedWorld(conducted.brokers, Kill()), ScriptedJournal(conducted.brokers, Kill()), "me 1"
    )
    carried.release_fence()
    conducted.brokers.problems = ("no leader",)
    found = conducted.run()
    assert (found["state"], found["failed"]) == ("refused", ["no leader"])
    assert conducted.run(mode="status")["state"] == "done"


def test_a_timeout_is_reported(conducted: Conducted) -> None:
    conducted.brokers.copies_nothing = True
    found = conducted.run(at_most_s=20, near=0)
    assert conducted.codes == [1]
    assert found["state"] == "aborted"
    (line,) = found["failed"]
    assert line.startswith("step catch-up took longer than 20 s, and producers stayed unfenced")
    assert found["next"] == [line, "producers may write to a; nothing has moved"]


@pytest.mark.parametrize("hidden", [False, True])
def test_a_release_that_lacks_a_right_names_the_fence_and_the_command_of_the_right(
    conducted: Conducted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hidden: bool
) -> None:
    conducted.brokers.acls_hidden, conducted.brokers.lasting_denials = hidden, ("fence of DENY WRITE stays",)

    def refuse(*_: object, **_options: object) -> NoReturn:
        raise RefusedError("cluster b: User:mirror lacks WRITE on transactional id x, needed for writing topic y")

    monkeypatch.setattr(session, "claim_machine", refuse)
    asked = SwitchoverArguments("release", "planned", None, None, None, False, "", None, DataFormat.TABLE)
    with pytest.raises(EndedError):
        conduct(asked, conducted, conducted, conducted, ())  # type: ignore[arg-type]
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("; `twinlog acls FILE --for switchover --missing` prints the command that grants it")
    assert second.startswith(
        f"twinlog: TW-SWITCH-21: {'producers may still be fenced on a: ' if hidden else 'fence of DENY WRITE stays'}"
    )
    assert conducted.codes == [3]


def test_a_closed_output_ends_the_command_as_any_other_and_leaves_the_report(
    conducted: Conducted, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conducted.brokers.copied = dict(conducted.brokers.logs)
    echo = session.typer.echo

    def closed(text: str, **options: Any) -> None:
        if not options.get("err"):
            raise BrokenPipeError
        echo(text, **options)

    monkeypatch.setattr(session.typer, "echo", closed)
    for mode in ("rehearse", "run"):
        asked = SwitchoverArguments(
            mode, "planned", None, 100, None, False, "", conducted.path if mode == "run" else None, DataFormat.TABLE
        )
        with pytest.raises(BrokenPipeError):
            conduct(asked, conducted, conducted, conducted, ())  # type: ignore[arg-type]
    assert conducted.read()["state"] == "done"
    assert "TW-" not in capsys.readouterr().err


def test_an_end_by_a_signal_is_reported(conducted: Conducted) -> None:
    brokers = conducted.brokers
    with pytest.raises(KilledError):
        machine(replace(brokers, records=brokers.records, stops_when_fenced=True), Kill(40)).run(PLANNED)
    clusters = session.LiveClusters()  # type: ignore[call-arg]
    asked = SwitchoverArguments("run", "planned", None, 1, 1, False, "", conducted.path, DataFormat.TABLE)
    with pytest.raises(EndedError):
        session._interrupted(signal.SIGINT, clusters, asked)
    found = conducted.read()
    assert found["state"] == "running"
    assert found["failed"][0].startswith("ended by SIGINT: a->b is running, last step ")
