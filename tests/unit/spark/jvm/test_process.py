"""The end of Spark's JVM, and the sentences for its errors; shells play the JVM."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import _start_update_server
from pyspark.errors import PySparkRuntimeError

from harness.wait import wait_for
from twinlog.errors import ConfigError, EngineError, EngineLostError
from twinlog.process.scratch import Scratch
from twinlog.spark.jvm import process as jvm_module
from twinlog.spark.jvm.process import Jvm, JvmErrorOutput

DEADLINE_S = 60.0

Play = Callable[[str], Jvm]


@pytest.fixture
def play() -> Iterator[Play]:
    """A JVM that does what a shell script does, and listens to nobody."""
    played: list[Jvm] = []

    def start(script: str) -> Jvm:
        jvm = Jvm()
        jvm._process = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE)
        played.append(jvm)
        return jvm

    yield start
    for jvm in played:
        jvm.end(DEADLINE_S)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("kill -9 $$", "was killed by SIGKILL"),
        # As the shells around a JVM that only just starts would report it.
        ("exit 137", "was killed by SIGKILL"),
        ("exit 143", "was killed by SIGTERM"),
        ("exit 3", "ran out of heap"),
        ("exit 1", "ended with code 1"),
    ],
)
@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(), TypeError("no _jvm")]
)
def test_whatever_is_asked_of_a_dead_jvm_is_a_loss(play: Play, script: str, text: str, error: Exception) -> None:
    jvm = play(script)
    assert jvm._process is not None
    jvm._process.wait(DEADLINE_S)
    with pytest.raises(EngineLostError, match=text) as lost, jvm.asked():
        raise error
    assert lost.value.retriable
    assert lost.value.__cause__ is error
    with pytest.raises(EngineLostError, match=text):
        jvm.require_alive()


def test_a_connection_that_breaks_a_moment_before_the_process_is_gone(play: Play) -> None:
    jvm = play("sleep 0.3; kill -9 $$")
    with pytest.raises(EngineLostError, match="SIGKILL"), jvm.asked():
        raise Py4JNetworkError("Error while sending or receiving")


def test_errors_of_a_running_jvm_are_translated(play: Play) -> None:
    jvm = play("cat")
    jvm.require_alive()
    with pytest.raises(EngineLostError, match="has stopped answering"), jvm.asked():
        raise Py4JNetworkError("Error while sending or receiving")
    for error in (Py4JError("An error occurred\n: java.lang.Fault: no\n\tat x"), PySparkRuntimeError("no")):
        with pytest.raises(EngineError, match=r"Spark refuses: (Fault: )?no$") as refused, jvm.asked():
            raise error
        assert not refused.value.retriable
    # What is not Spark's stays what it is.
    for other in (TypeError("a mistake"), ConfigError([])):
        with pytest.raises(type(other)), jvm.asked():
            raise other


def test_only_at_the_start_an_end_without_a_signal_is_final(play: Play) -> None:
    jvm = play("exit 1")
    assert jvm._process is not None
    jvm._process.wait(DEADLINE_S)
    ended = jvm._has_ended(starting=True)
    assert (type(ended), ended.retriable) == (EngineError, False)
    assert "Spark needs Java 17 or newer" in str(ended)


def test_a_stopped_jvm_is_reported_as_stopped(play: Play) -> None:
    jvm = play("cat")
    jvm.interrupt()
    with pytest.raises(EngineLostError, match="JVM was stopped"), jvm.asked():
        raise Py4JNetworkError("Answer from Java side is empty")


def spark_that(script: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell script stand in for what starts Spark's JVM."""
    submit = home / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(f"#!/bin/sh\n{script}")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))


@pytest.mark.parametrize(
    ("codes", "error", "text"),
    [
        # Spark's own shells, when they cannot know what became of Java.
        (("exit 1", "exit 1"), EngineError, "ended with code 1 before it listened"),
        (("exit 1", "kill -9 $$"), EngineLostError, "SIGKILL"),
        (("kill -9 $$",), EngineLostError, "SIGKILL"),
    ],
)
def test_a_start_that_fails_for_no_known_reason_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[str, ...], error: type[EngineError], text: str
) -> None:
    tries = "".join(f"if [ $n = {number} ]; then {code}; fi\n" for number, code in enumerate(codes, 1))
    spark_that(f'echo >> "{tmp_path}/tries"\nn=$(grep -c "" "{tmp_path}/tries")\n{tries}', tmp_path, monkeypatch)
    jvm = Jvm()
    with pytest.raises(error, match=text) as raised:
        jvm.start(SparkConf(), tmp_path)
    assert type(raised.value) is error
    assert len((tmp_path / "tries").read_text().splitlines()) == len(codes)
    jvm.end(DEADLINE_S)


@pytest.mark.parametrize(("given", "heaps"), [(None, "2"), ("7", "7")])
def test_the_many_threads_of_the_jvm_share_few_heaps_of_the_c_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, heaps: str
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    if given is not None:
        monkeypatch.setenv("MALLOC_ARENA_MAX", given)
    spark_that(f'echo $MALLOC_ARENA_MAX > "{tmp_path}/heaps"\nkill -9 $$\n', tmp_path, monkeypatch)
    jvm = Jvm()
    with pytest.raises(EngineLostError):
        jvm.start(SparkConf(), tmp_path)
    assert (tmp_path / "heaps").read_text().strip() == heaps
    jvm.end(DEADLINE_S)


def test_the_jvm_has_the_locks_of_its_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_that(f'readlink /proc/self/fd/* > "{tmp_path}/files"\nkill -9 $$\n', tmp_path, monkeypatch)
    jvm = Jvm()
    scratch = Scratch(tmp_path)
    folder = scratch.path
    with scratch, pytest.raises(EngineLostError):
        jvm.start(SparkConf(), folder, locks=[scratch.lock])
    assert str(folder) in (tmp_path / "files").read_text().split()
    jvm.end(DEADLINE_S)


def test_a_start_that_a_setting_prevents_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_that(
        f'echo >> "{tmp_path}/tries"\necho "Invalid maximum heap size: -Xmxabc" >&2\nexit 1\n', tmp_path, monkeypatch
    )
    jvm = Jvm({"spark.driver.memory": "--conf"})
    refused = "before it listened: spark.driver.memory = abc (--conf): Invalid maximum heap size: -Xmxabc"
    with pytest.raises(EngineError, match=re.escape(refused)):
        jvm.start(SparkConf(loadDefaults=False).set("spark.driver.memory", "abc"), tmp_path)
    assert len((tmp_path / "tries").read_text().splitlines()) == 1
    jvm.end(DEADLINE_S)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("Error occurred during initialization of VM\nMultiple garbage collectors selected", "Multiple garbage coll"),
        (
            "Error occurred during initialization of boot layer\njava.lang.module.FindException: Module a.b not found",
            "Module a.b not found",
        ),
        ("Unrecognized VM option 'Foo'\nError: Could not create the Java Virtual Machine.", "Unrecognized VM option"),
    ],
)
def test_java_may_print_its_reason_to_its_output(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    printed: str,
    reason: str,
) -> None:
    spark_that(f'echo "{printed}"\nexit 1\n', tmp_path, monkeypatch)
    jvm = Jvm()
    with pytest.raises(EngineError, match=re.escape(f"ended with code 1 before it listened: {reason}")) as ended:
        jvm.start(SparkConf(loadDefaults=False), tmp_path)
    jvm.end(DEADLINE_S)
    assert "Java 17" not in str(ended.value), "this Java ran, and says another reason"
    assert printed in capfd.readouterr().out, "as other output of Spark"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "it gave no reason"),
        ("JAVA_HOME is not set", "JAVA_HOME is not set"),
        ("/none/bin/java: No such file or directory", "/none/bin/java: No such file or directory"),
        ("spark-class: line 71: exec: java: not found", "spark-class: line 71: exec: java: not found"),
        # Java 11, and Java 8.
        (
            (
                "Error: LinkageError occurred while loading main class org.apache.spark.launcher.Main\n"
                "\tjava.lang.UnsupportedClassVersionError: org/apache/spark/launcher/Main has been compiled by ..."
            ),
            "LinkageError occurred while loading main class org.apache.spark.launcher.Main",
        ),
        (
            (
                "Error: A JNI error has occurred, please check your installation and try again\n"
                "Exception in thread main java.lang.UnsupportedClassVersionError: ... (class file version 61.0)"
            ),
            "A JNI error has occurred, please check your installation and try again",
        ),
    ],
)
def test_a_start_without_a_new_java_says_which_one_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    spark_that(f'echo "{said}" >&2\nexit 1\n', tmp_path, monkeypatch)
    jvm = Jvm()
    needed = "Spark needs Java 17 or newer, in JAVA_HOME or else on the PATH"
    reason = f"{reason}; {needed}"
    with pytest.raises(EngineError, match=f"{re.escape(reason)}$"):
        jvm.start(SparkConf(loadDefaults=False), tmp_path)
    jvm.end(DEADLINE_S)


def test_a_slow_start_is_logged_repeatedly_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spark_that("exec sleep 600", tmp_path, monkeypatch)
    monkeypatch.setattr(jvm_module, "SLOW_S", 0.2)
    monkeypatch.setattr(jvm_module, "AGAIN_S", 0.1)
    jvm = Jvm()
    raised: list[Exception] = []

    def start() -> None:
        try:
            jvm.start(SparkConf(), tmp_path)
        except EngineError as error:
            raised.append(error)

    def warnings() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]

    starting = threading.Thread(target=start)
    starting.start()
    try:
        wait_for(lambda: len(warnings()) >= 2, DEADLINE_S, "it is logged that the start is slow")
        assert starting.is_alive()
    finally:
        jvm.interrupt()
        starting.join(DEADLINE_S)
    assert all("is still to listen: twinlog waits for it" in one for one in warnings())
    assert [type(one) for one in raised] == [EngineLostError]
    jvm.end(DEADLINE_S)


@pytest.mark.parametrize("directory_goes", [False, True])
def test_what_pyspark_keeps_for_a_jvm_ends_with_it(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, directory_goes: bool
) -> None:
    me = psutil.Process()
    threads, files = set(threading.enumerate()), me.num_fds()
    unheard: list[object] = []
    monkeypatch.setattr(threading, "excepthook", unheard.append)
    directory = tmp_path_factory.mktemp("a")
    server = _start_update_server("", is_unix_domain_sock=True, socket_path=str(directory / "socket"))
    if directory_goes:
        # Between the question whether its socket is there and its removal.
        shutil.rmtree(directory)
        monkeypatch.setattr(os.path, "exists", lambda _: True)
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_accumulatorServer=server))
    Jvm().end(DEADLINE_S)
    wait_for(lambda: not set(threading.enumerate()) - threads, DEADLINE_S, "its threads have ended")
    assert me.num_fds() == files
    assert unheard == []
    assert not (directory / "socket").exists()


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
