"""Private parts of Spark: tasks of executors that are about to leave, and threads that Spark keeps of ended queries."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twinlog.spark.jvm.internals import _FACTORY_OF, end_useless_threads, leaving_tasks, task_executors
from twinlog.spark.jvm.process import JvmErrorOutput


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


def test_each_running_task_has_its_executor() -> None:
    assert task_executors(session("", "0 -> 1,7 -> 22")) == {0: "1", 7: "22"}
    assert task_executors(session("", "")) == {}


class Thread:
    def __init__(self, name: str, *, daemon: bool) -> None:
        self.interrupted = False
        self._name = name
        setattr(self, _FACTORY_OF, lambda: SimpleNamespace(useDaemonEnabled=lambda: daemon))

    def getName(self) -> str:
        return self._name

    def interrupt(self) -> None:
        self.interrupted = True


def test_only_those_of_processes_that_are_no_daemon() -> None:
    left = Thread("Idle Worker Monitor for /usr/bin/python", daemon=False)
    daemon = Thread("Idle Worker Monitor for /usr/bin/python", daemon=True)
    other = Thread("main", daemon=False)
    stacks = SimpleNamespace(keySet=lambda: {left, daemon, other})
    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(getAllStackTraces=lambda: stacks)))
    )
    end_useless_threads(cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm))))
    assert [one.interrupted for one in (left, daemon, other)] == [True, False, False]


def test_what_the_jvm_prints_of_that_is_no_complaint() -> None:
    complaints = JvmErrorOutput()
    printed = 'Exception in thread "Idle Worker Monitor for python" java.lang.InterruptedException: sleep interrupted'
    assert complaints.level(printed) == logging.DEBUG
    assert complaints.level("\tat java.base/java.lang.Thread.sleep(Native Method)") == logging.DEBUG
    assert complaints.level('Exception in thread "main" java.lang.Error') == logging.WARNING


def test_arguments_of_calls_are_converted_without_numpy_and_pyarrow() -> None:
    """Both cost memory in every driver, and the driver passes no arrays to its JVM."""
    program = """
import sys
from py4j.protocol import INPUT_CONVERTER
from twinlog.spark.jvm.internals import refuse_numpy
refuse_numpy()
assert not any(one.can_convert(3) for one in INPUT_CONVERTER)
assert not {"numpy", "pandas", "pyarrow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
