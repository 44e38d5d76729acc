"""The thread of a flow follows topics and tasks, also while a cluster is out of reach for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.worker.test_slots import settings
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.retry import FLOW_STEP
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.flow.flow import FlowRunner
from twinlog.worker.retrying import FlowRetrier
from twinlog.worker.status.flow_status import FlowStatus
from twinlog.worker.status.report import FlowState

PART = TopicPartition(TopicName("t"), 0)
STEP = "follow topics and settings"


class Thread:
    """A flow whose thread runs without clusters and copiers, for `longest_s` seconds.

    The first `faults` tries of a refresh fail, and no further refresh is due after a success.
    """

    def __init__(self, faults: int, longest_s: float = 20.0, caught_up: object = None) -> None:
        self.clock = clock = VirtualClock()
        self.status = FlowStatus(clock.monotonic)
        self.attended: list[float] = []
        self.tried: list[float] = []
        self.troubles: list[str | None] = []
        self.topics = SimpleNamespace(due_at=clock.now, nothing=None, refused=None)
        stopping = threading.Event()

        def attend() -> None:
            self.attended.append(clock.now)
            if self.attended[-1] - self.attended[0] >= longest_s:
                stopping.set()

        def refresh() -> None:
            self.tried.append(clock.now)
            self.troubles.append(self.status.summary().trouble)
            self.topics.due_at = inf
            if len(self.tried) <= faults:
                raise ClusterError("the source is silent for this process")

        self.flow = object.__new__(FlowRunner)
        waiting: Any = SimpleNamespace(outage=None)
        parts: dict[str, Any] = {
            "_clock": clock,
            "_stopping": stopping,
            "_caught_up": caught_up,
            "_waiting": waiting,
            "_topics": self.topics,
            "_control": SimpleNamespace(poll_withheld=lambda: None),
            "_tasks": SimpleNamespace(poll_tasks=attend),
            "_jobs": SimpleNamespace(poll_jobs=lambda: None),
            "_refresh": refresh,
            "_retry": FlowRetrier("a->b", self.status, waiting, stopping, clock),
            "_wake": lambda: None,
            "changes": SimpleNamespace(pending=False, settings=replace(settings("a"), refresh_topics_interval_s=None)),
            "flow_status": self.status,
            "held": SimpleNamespace(retry_due_partitions=lambda: None, settled=frozenset),
            "ready": threading.Event(),
            "state": FlowState.RUNNING,
        }
        for name, part in parts.items():
            setattr(self.flow, name, part)


def pauses(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def test_tasks_are_attended_while_topics_are_out_of_reach(caplog: pytest.LogCaptureFixture) -> None:
    here = Thread(faults=5)
    with caplog.at_level(logging.WARNING):
        here.flow._keep_going()
    assert len(here.tried) == 6
    assert min(pauses(here.tried)) > 0.9 * FLOW_STEP.first_s
    assert max(pauses(here.tried)) < 2 * FLOW_STEP.first_s
    assert max(pauses(here.attended)) < FLOW_STEP.first_s / 2
    first, *further = here.troubles
    assert first is None
    assert all(text is not None and f"cannot {STEP}: the source is silent" in text for text in further)
    assert here.status.summary().trouble is None
    line = f"a->b: cannot {STEP} yet, trying again: the source is silent for this process"
    assert caplog.text.count(line) == 1


def test_changed_settings_are_taken_over_after_an_outage() -> None:
    here = Thread(faults=0)
    here.topics.due_at = inf
    faults = [ClusterError("silent"), ClusterError("silent")]

    def take_over(*_: object) -> None:
        here.tried.append(here.clock.now)
        if faults:
            raise faults.pop()
        changes.pending = False

    changes: Any = here.flow.changes
    changes.pending, changes.take_over, here.flow.by_settings = True, take_over, changes
    here.flow._keep_going()
    assert len(here.tried) == 3
    assert min(pauses(here.tried)) > 0.9 * FLOW_STEP.first_s
    assert max(pauses(here.attended)) < FLOW_STEP.first_s / 2


def test_a_refusal_ends_the_flow() -> None:
    def refuse() -> None:
        raise RefusedError("no right to describe topics")

    here = Thread(faults=0)
    here.flow._refresh = refuse  # type: ignore[method-assign]
    with pytest.raises(RefusedError):
        here.flow._keep_going()


def test_a_run_ends_with_topics_that_are_up_to_date() -> None:
    """A refresh that fails may leave out topics that the target has created meanwhile."""

    def poll_outcome(*, may_refresh: bool) -> tuple[FlowState, None] | None:
        assert may_refresh
        return (FlowState.DONE, None) if here.topics.due_at == inf else None

    here = Thread(faults=3, caught_up=SimpleNamespace(poll_outcome=poll_outcome))
    here.flow._keep_going()
    assert len(here.tried) == 4
    assert here.flow.state is FlowState.DONE


def test_partitions_whose_ends_were_out_of_reach_are_planned_later() -> None:
    remote = {PART: PART}
    faults = [ClusterError("the source is silent")]
    planned: list[object] = []

    def add(_: object) -> None:
        if faults:
            raise faults.pop()

    here = Thread(faults=0)
    del here.flow._refresh  # type: ignore[method-assign]
    for name, part in {
        "_topics": SimpleNamespace(refresh=lambda: None, refused=None, partitions=remote),
        "_caught_up": SimpleNamespace(add_partitions=add),
        "_control": SimpleNamespace(plan=planned.append),
        "_remote": {},
        "leases": SimpleNamespace(lease=1),
    }.items():
        setattr(here.flow, name, part)
    with pytest.raises(ClusterError):
        here.flow._refresh()
    for _ in range(2):
        here.flow._refresh()
    assert planned == [remote]
    assert here.flow.copied == remote
