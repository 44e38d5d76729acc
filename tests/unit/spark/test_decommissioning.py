"""Which tasks run in executors that are about to go, out of what Spark's scheduler says in Scala's words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.spark.jvm.internals import leaving_tasks


def session(leaving: str, running: str) -> Any:
    keys = SimpleNamespace(mkString=lambda between: leaving)
    backend = SimpleNamespace(executorsPendingDecommission=lambda: SimpleNamespace(keySet=lambda: keys))
    tasks = SimpleNamespace(taskIdToExecutorId=lambda: SimpleNamespace(mkString=lambda between: running))
    scala = SimpleNamespace(schedulerBackend=lambda: backend, taskScheduler=lambda: tasks)
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala)))


@pytest.mark.parametrize(
    ("leaving", "running", "tasks"),
    [
        ("", "0 -> 1,7 -> 2", set()),
        ("2", "0 -> 1,7 -> 2,12 -> 22", {7}),
        ("2,22", "0 -> 1,7 -> 2,12 -> 22", {7, 12}),
        ("3", "", set()),
    ],
)
def test_tasks_of_executors_that_go(leaving: str, running: str, tasks: set[int]) -> None:
    assert leaving_tasks(session(leaving, running)) == tasks
