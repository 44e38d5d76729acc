"""What Spark writes to standard error: complaints are passed on, traces and what every orderly end brings are not."""

from __future__ import annotations

import logging

import pytest

from twinlog.spark.jvm.process import JvmErrorOutput

IDLE_WORKER_ENDS = """\
Traceback (most recent call last):
  File "/opt/python/pyspark/daemon.py", line 262, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/opt/python/pyspark/daemon.py", line 95, in worker
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe
"""


def shown(text: str) -> list[str]:
    """The lines that are warnings."""
    complaints = JvmErrorOutput()
    return [line for line in text.splitlines() if complaints.level(line) == logging.WARNING]


def test_a_worker_that_was_idle_for_too_long_is_nothing_to_say() -> None:
    assert shown(IDLE_WORKER_ENDS) == []


@pytest.mark.parametrize(
    "text",
    [
        "BrokenPipeError: [Errno 32] Broken pipe\n",
        IDLE_WORKER_ENDS.replace("pyspark/daemon.py", "twinlog/copier/copier_thread.py"),
        IDLE_WORKER_ENDS.replace("BrokenPipeError: [Errno 32] Broken pipe", "MemoryError"),
    ],
)
def test_other_errors_are_passed_on_in_one_line(text: str) -> None:
    assert shown(text) == text.splitlines()[-1:]


def test_what_came_before_has_no_part_in_the_next_error() -> None:
    broken = "BrokenPipeError: [Errno 32] Broken pipe"
    assert shown(f"{IDLE_WORKER_ENDS}ERROR Executor: x\n{broken}") == ["ERROR Executor: x", broken]


def test_the_reason_is_the_first_line_of_a_java_error() -> None:
    text = "ERROR Executor: Exception in task 0.0\njava.lang.Error: x\n\tat a.b.C(D.scala:1)\nCaused by: y\n"
    assert shown(text) == ["ERROR Executor: Exception in task 0.0"]


def test_a_query_that_is_ended_is_nothing_to_say() -> None:
    assert (
        shown("ERROR WriteToDataSourceV2Exec: Data source write support MicroBatchWrite[epoch: 0] is aborting.") == []
    )
    assert shown("ERROR Utils: Aborting task\norg.apache.spark.TaskKilledException\n\tat org.apache.spark") == []
    assert shown("ERROR DataWritingSparkTask: Aborting commit for partition 0 (task 0, attempt 0, stage 0.0)") == []
    assert len(shown("ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)")) == 1


def test_greetings_are_nothing_at_all() -> None:
    assert JvmErrorOutput().level("WARNING: Using incubator modules: jdk.incubator.vector") is None
    assert JvmErrorOutput().level("") is None


def test_another_version_is_reported_by_the_driver_alone() -> None:
    text = (
        "ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)\ntwinlog.errors.VersionMismatchError: copier one\n"
    )
    assert shown(text) == text.splitlines()[:1]
