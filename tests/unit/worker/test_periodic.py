"""Jobs of a flow: when they take their turns, and what they log when one fails."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import pytest

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.retry import PERIODIC_JOB, RetryPolicy
from twinlog.worker import periodic as periodic_module
from twinlog.worker.periodic import PeriodicJobs, Step


class Steps:
    """A step that counts its turns, and fails or leaves something undone as it is asked."""

    def __init__(self) -> None:
        self.turns: list[float] = []
        self.error: Exception | None = None
        self.undone: str | None = None

    def __call__(self) -> str | None:
        self.turns.append(time.monotonic())
        if self.error is not None:
            raise self.error
        return self.undone

    def wait_for_turns(self, count: int) -> None:
        wait_for(lambda: len(self.turns) >= count, 60, f"{count} turns")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_module, "PERIODIC_JOB", RetryPolicy(0.01, 0.04))
    monkeypatch.setattr(periodic_module, "REFUSED", RetryPolicy(0.01, 0.01))
    monkeypatch.setattr(periodic_module, "LOG_AFTER_S", 0.0)


@pytest.fixture
def step() -> Steps:
    return Steps()


@pytest.fixture
def notes() -> list[tuple[str, str | None]]:
    return []


@pytest.fixture
def begin(notes: list[tuple[str, str | None]]) -> Iterator[Begin]:
    begun: list[PeriodicJobs] = []

    def start(step: Step, interval_s: float) -> PeriodicJobs:
        jobs = PeriodicJobs("a->b", lambda what, trouble: notes.append((what, trouble)))
        jobs.begin("write heartbeats", step, interval_s, way_out="set a->b.emit.heartbeats.enabled = false")
        begun.append(jobs)
        return jobs

    yield start
    for jobs in begun:
        jobs.stop(5)


Begin = Callable[[Step, float], PeriodicJobs]


def turns(step_s: float, interval_s: float) -> list[float]:
    """When the first three turns of a step begin that takes so long, in seconds since the first one."""
    clock = VirtualClock()
    begun: list[float] = []
    enough = threading.Event()

    def step() -> None:
        begun.append(clock.now)
        clock.sleep(step_s)
        if len(begun) == 3:
            enough.set()

    jobs = PeriodicJobs("a->b", clock=clock)
    jobs.begin("look", step, interval_s)
    assert enough.wait(60)
    jobs.stop(5)
    return [at - begun[0] for at in begun[:3]]


def test_first_turn_is_at_once_and_the_next_after_the_interval(step: Steps, begin: Begin) -> None:
    assert turns(0.0, 3600) == [0.0, 3600.0, 7200.0]
    begin(step, 3600)
    step.wait_for_turns(1)


def test_a_slow_step_rests_as_long_as_it_took_but_not_longer_than_its_interval() -> None:
    assert turns(20.0, 60) == [0.0, 60.0, 120.0]
    assert turns(50.0, 60) == [0.0, 100.0, 200.0]
    assert turns(500.0, 60) == [0.0, 560.0, 1120.0]


def test_a_failed_turn_is_logged_once_and_retried_soon(
    step: Steps, begin: Begin, notes: list[tuple[str, str | None]], caplog: pytest.LogCaptureFixture
) -> None:
    step.error = ClusterError("cluster b: nobody there")
    with caplog.at_level(logging.INFO):
        begin(step, 3600)
        step.wait_for_turns(4)
        step.error = None
        wait_for(lambda: notes[-1:] == [("write heartbeats", None)], 60, "the trouble is over")
    waits = [after - before for before, after in zip(step.turns[:3], step.turns[1:4], strict=True)]
    assert waits[0] >= 0.01
    assert waits[1] >= 0.02
    assert waits[2] >= 0.04
    logged = [record.getMessage() for record in caplog.records]
    # A cluster that is down is no reason to switch anything off.
    assert logged == [
        "TW-FLOW-04: a->b: cannot write heartbeats, trying again: cluster b: nobody there",
        "a->b: can write heartbeats again",
    ]
    assert ("write heartbeats", "cluster b: nobody there") in notes


def test_a_refusal_is_logged_once_however_long_it_lasts(
    step: Steps, begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_module, "DOUBLING_S", (0.0, 0.0))
    step.error = RefusedError("cluster b: User:mm lacks WRITE on topic heartbeats")
    begin(step, 0.001)
    step.wait_for_turns(5)
    step.error = RefusedError("cluster b: User:mm lacks DESCRIBE on topic heartbeats")
    step.wait_for_turns(len(step.turns) + 5)
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.ERROR]
    assert ["WRITE" in record.getMessage() for record in caplog.records] == [True, False]
    assert all("emit.heartbeats.enabled = false" in record.getMessage() for record in caplog.records)


def test_a_retriable_error_is_logged_again_from_time_to_time(
    step: Steps, begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_module, "DOUBLING_S", (0.0, 0.0))
    step.error = ClusterError("cluster b: nobody there")
    begin(step, 3600)
    step.wait_for_turns(3)
    assert len(caplog.records) >= 2


def test_a_lasting_error_is_logged_at_growing_intervals_whatever_its_text(
    step: Steps, begin: Begin, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_module, "PERIODIC_JOB", RetryPolicy(0.001, 0.001))
    monkeypatch.setattr(periodic_module, "DOUBLING_S", (3600.0, 3600.0))
    step.error = ClusterError("cluster b: nobody there")
    begin(step, 3600)
    step.wait_for_turns(3)
    step.error = ClusterError("cluster b: no answer")
    step.wait_for_turns(len(step.turns) + 5)
    assert len(caplog.records) == 1


def test_a_short_fault_is_not_logged(
    step: Steps,
    begin: Begin,
    notes: list[tuple[str, str | None]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(periodic_module, "LOG_AFTER_S", 3600.0)
    step.error = ClusterError("cluster b: nobody there")
    with caplog.at_level(logging.INFO):
        begin(step, 3600)
        step.wait_for_turns(3)
        step.error = None
        wait_for(lambda: notes[-1:] == [("write heartbeats", None)], 60, "the trouble is over")
    assert caplog.records == []


def test_a_logged_outage_silences_all_jobs_until_it_ends(
    step: Steps, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_module, "PERIODIC_JOB", RetryPolicy(0.01, 3600.0))
    excused = True
    jobs = PeriodicJobs("a->b", excused=lambda: excused)
    try:
        step.error = ClusterError("cluster b: nobody there")
        jobs.begin("look", step, 0.01)
        step.wait_for_turns(3)
        assert caplog.records == []
        excused, step.error = False, None
        turns = len(step.turns)

        def hurried() -> bool:
            jobs.rerun_failed_jobs()
            return len(step.turns) > turns

        # Whose next try would be an hour away tries again at once.
        wait_for(hurried, 60, "another turn")
    finally:
        jobs.stop(5)


def test_a_programming_error_is_shown_with_its_trace_and_does_not_end_the_job(
    step: Steps, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    step.error = KeyError("x")
    begin(step, 3600)
    step.wait_for_turns(3)
    assert any(record.exc_info for record in caplog.records)


def test_hurry_takes_the_next_turn_now(step: Steps) -> None:
    jobs = PeriodicJobs("a->b")
    job = jobs.begin("look", step, 3600)
    assert job is not None
    try:
        step.wait_for_turns(1)
        job.run_turn_now()
        step.wait_for_turns(2)
    finally:
        jobs.stop(5)


def test_stop_ends_a_wait_at_once_and_names_what_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    jobs = PeriodicJobs("a->b")
    jobs.begin("sleep", lambda: None, 3600)

    def hang() -> None:
        release.wait(60)

    jobs.begin("hang", hang, 3600)
    jobs.stop(0.3)
    release.set()
    assert [record.getMessage() for record in caplog.records] == [
        "TW-FLOW-03: a->b: could not hang to the end within 0.3 s"
    ]


def test_what_is_turned_off_never_runs(step: Steps) -> None:
    jobs = PeriodicJobs("a->b")
    assert jobs.begin("look", step, None) is None
    jobs.stop(1)
    assert step.turns == []


def test_after_stop_nothing_begins(step: Steps) -> None:
    jobs = PeriodicJobs("a->b")
    jobs.stop(1)
    assert jobs.begin("look", step, 0.01) is None
    assert step.turns == []


def test_unfinished_work_of_a_step_is_logged_once_and_slows_nothing_down(
    step: Steps,
    begin: Begin,
    notes: list[tuple[str, str | None]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(periodic_module, "PERIODIC_JOB", RetryPolicy(3600.0, 3600.0))
    step.undone = "group g: no"
    begin(step, 0.01)
    step.wait_for_turns(6)
    assert [record.getMessage() for record in caplog.records if "group g" in record.getMessage()] == [
        "TW-FLOW-04: a->b: cannot write heartbeats, trying again: group g: no; set a->b.emit.heartbeats.enabled = false"
    ]
    step.undone = None
    wait_for(lambda: notes[-1:] == [("write heartbeats", None)], 60, "the trouble is over")


def test_a_last_turn_after_stop_one_job_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    jobs = PeriodicJobs("a->b")
    for name in ("first", "second"):
        jobs.begin(name, partial(done.append, name), 3600, last_step=partial(done.append, f"last {name}"))
    wait_for(lambda: len(done) == 2, 60, "both took their first turns")
    jobs.stop(5)
    assert done[2:] == ["last first", "last second"]
    assert caplog.records == []


def test_each_last_turn_has_its_own_time_and_a_slow_job_has_more(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    jobs = PeriodicJobs("a->b")

    def work(name: str, s: float) -> None:
        time.sleep(s)
        done.append(name)

    for name in ("report", "checkpoints", "commits"):
        jobs.begin(name, partial(work, name, 0.4), 3600, last_step=partial(work, f"last {name}", 0.6))
    wait_for(lambda: len(done) == 3, 60, "all took their first turns")
    # Three times their turns, each: more than the time for the other jobs.
    jobs.stop(0.1)
    assert done[3:] == ["last report", "last checkpoints", "last commits"]
    assert caplog.records == []


@pytest.mark.parametrize(("worked", "told"), [(True, 1), (False, 0)], ids=["worked", "never worked"])
def test_a_last_turn_that_fails_is_told_where_something_is_left_undone(
    worked: bool, told: int, step: Steps, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_module, "LOG_AFTER_S", 3600.0)
    if not worked:
        step.error = ClusterError("cluster b: no topic yet")
    jobs = PeriodicJobs("a->b")
    jobs.begin("write checkpoints", step, 3600, last_step=step)
    step.wait_for_turns(1)
    step.error = ClusterError("cluster b: no topic yet")
    jobs.stop(5)
    assert [one.levelno for one in caplog.records if one.levelno > logging.DEBUG] == [logging.WARNING] * told


def test_what_is_done_often_is_tried_again_often() -> None:
    clock = VirtualClock()
    begun: list[float] = []
    enough = threading.Event()

    def step() -> None:
        begun.append(clock.now)
        if begun[-1] > begun[0] + 100:
            enough.set()
        raise ClusterError("down")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(periodic_module, "PERIODIC_JOB", PERIODIC_JOB)
        jobs = PeriodicJobs("a->b", clock=clock)
        jobs.begin("write heartbeats", step, 1.0)
        assert enough.wait(60)
        jobs.stop(5)
    assert max(after - before for before, after in pairwise(begun)) == periodic_module.OFTEN_S


def test_a_flow_that_is_cut_off_takes_no_last_turn_and_leaves_what_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []
    jobs = PeriodicJobs("a->b", lambda *_: None)
    goes_on = threading.Event()
    begun = threading.Event()

    def hangs() -> None:
        begun.set()
        goes_on.wait(60)

    jobs.begin("turn", partial(done.append, "turn"), 3600, last_step=partial(done.append, "last"))
    jobs.begin("hang", hangs, 3600, last_step=hangs)
    wait_for(lambda: begun.is_set() and done, 60, "both had a turn")
    jobs.stop(0.1, cut_off=True)
    goes_on.set()
    assert done == ["turn"]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


class Waiting:
    """Something to look at between two turns, after so many seconds each."""

    def __init__(self, clock: VirtualClock, *after_s: float, error: TwinlogError | None = None) -> None:
        self.looks: list[float] = []
        self._clock = clock
        self._after_s = list(after_s)
        self._error = error

    def again_s(self) -> float | None:
        return self._after_s[0] if self._after_s else None

    def try_again(self) -> None:
        self.looks.append(self._clock.now)
        del self._after_s[0]
        if self._error is not None:
            raise self._error


def looked(waiting: Callable[[VirtualClock], Waiting]) -> tuple[list[float], list[float]]:
    """When a job of an hour takes its first three turns, and when it looks at what does not wait, in seconds since."""
    clock = VirtualClock(0.0)
    begun: list[float] = []
    enough = threading.Event()
    again = waiting(clock)

    def step() -> None:
        begun.append(clock.now)
        if len(begun) == 3:
            enough.set()

    jobs = PeriodicJobs("a->b", clock=clock)
    jobs.begin("look", step, 3600, again=again)
    assert enough.wait(60)
    jobs.stop(5)
    return begun[:3], again.looks


def test_what_may_not_wait_is_looked_at_between_two_turns_and_moves_none_of_them() -> None:
    assert looked(lambda clock: Waiting(clock, 1, 2, 4)) == ([0.0, 3600.0, 7200.0], [1.0, 3.0, 7.0])
    assert looked(lambda clock: Waiting(clock, 3600)) == ([0.0, 3600.0, 7200.0], [])


def test_a_look_that_fails_is_followed_by_a_whole_turn_soon() -> None:
    failing = looked(lambda clock: Waiting(clock, 10, error=ClusterError("cluster b: nobody there")))
    assert failing == ([0.0, 10.01, 3610.01], [10.0])


def test_what_follows_another_job_rests_as_long_as_its_last_turn_took() -> None:
    clock = VirtualClock(0.0)
    begun: list[float] = []
    enough = threading.Event()
    jobs = PeriodicJobs("a->b", clock=clock)

    def step() -> None:
        begun.append(clock.now)
        clock.sleep(10)
        if len(begun) < 3:
            job = jobs._jobs[0]
            job.follow()
        else:
            enough.set()

    jobs.begin("look", step, 3600)
    assert enough.wait(60)
    jobs.stop(5)
    assert begun[:3] == [0.0, 20.0, 40.0]


def test_some_jobs_end_with_their_last_turn_and_their_trouble_while_others_go_on(
    step: Steps, notes: list[tuple[str, str | None]]
) -> None:
    jobs = PeriodicJobs("a->b", lambda what, trouble: notes.append((what, trouble)))
    other, last = Steps(), Steps()
    step.error = ClusterError("away")
    jobs.begin("look", other, 0.01)
    ending = [
        job
        for job in (jobs.begin("write", step, 0.01), jobs.begin("commit", last, 60.0, last_step=last))
        if job is not None
    ]
    step.wait_for_turns(2)
    last.wait_for_turns(1)
    wait_for(lambda: ("write", "away") in notes, 60, "it is in trouble")
    jobs.end(ending, 60.0)
    taken, before = len(step.turns), len(other.turns)
    assert (len(last.turns), notes[-1]) == (2, ("write", None))
    assert [job.what for job in jobs.all] == ["look"]
    other.wait_for_turns(before + 3)
    assert len(step.turns) == taken
    # What comes in their place begins.
    step.error = None
    assert jobs.begin("write", step, 0.01) is not None
    step.wait_for_turns(taken + 2)
    jobs.stop(60)


def test_a_job_that_works_once_ends_after_its_first_success(step: Steps) -> None:
    step.error = ClusterError("cluster b: nobody there")
    jobs = PeriodicJobs("a->b")
    job = jobs.begin("remove it", step, 0.0, once=True)
    assert job is not None
    step.wait_for_turns(3)
    step.error = None
    assert job.join(60)
    taken = len(step.turns)
    assert (job.trouble, job.succeeded) == (None, True)
    jobs.stop(5)
    assert len(step.turns) == taken
