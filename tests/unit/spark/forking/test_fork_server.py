"""The fork server's launcher behaves as Python does, and its daemons end as Spark's own do."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.wait import wait_for
from twinlog.cli.connect import allow_many_files
from twinlog.spark.forking import fork_client
from twinlog.spark.forking import fork_server as fork_server_module
from twinlog.spark.forking.fork_server import ForkServer

DEADLINE_S = 60.0


@pytest.fixture
def own_fork_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    opened = ForkServer(tmp_path_factory.mktemp("n"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """As a worker of many connectors starts it, when its Spark was lost: with more files open than select knows."""
    allow_many_files()
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    opened = ForkServer(tmp_path_factory.mktemp("n"))
    for one in held:
        os.close(one)
    yield opened
    opened.close()


@pytest.fixture
def fork_server(shared: ForkServer) -> ForkServer:
    """One for all tests that do not end it: it imports everything first."""
    wait_for(lambda: not _children(shared.pid), DEADLINE_S, "what another test had forked is gone")
    return shared


def _daemon(launcher: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [launcher, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _children(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def _port(daemon: subprocess.Popen[bytes]) -> int:
    assert daemon.stdout is not None
    (port,) = struct.unpack(">i", daemon.stdout.read(4))
    return int(port)


def test_a_daemon_is_forked_with_the_callers_streams(fork_server: ForkServer) -> None:
    with _daemon(fork_server.launcher) as daemon:
        assert 1024 <= _port(daemon) < 65536
        (forked,) = _children(fork_server.pid)
        assert forked.pid != daemon.pid
        assert daemon.stdin is not None
        daemon.stdin.close()
        assert daemon.wait(DEADLINE_S) == 0
        wait_for(lambda: not forked.is_running(), DEADLINE_S, "the daemon ends with its standard input")


def test_what_fails_tells_its_reason_in_one_line(fork_server: ForkServer) -> None:
    done = subprocess.run(
        [fork_server.launcher, "-m", "pyspark.sql.streaming.python_streaming_source_runner"],
        env={**os.environ, "PYTHON_WORKER_FACTORY_PORT": "1", "PYTHON_WORKER_FACTORY_SECRET": "s"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("pyspark.sql.streaming.python_streaming_source_runner: PySparkRuntimeError: [CANNOT_OPEN")


def test_a_terminated_launcher_takes_its_daemon_along(fork_server: ForkServer) -> None:
    with _daemon(fork_server.launcher) as daemon:
        _port(daemon)
        (forked,) = _children(fork_server.pid)
        daemon.terminate()
        daemon.wait(DEADLINE_S)
        wait_for(lambda: not forked.is_running(), DEADLINE_S, "the daemon ends with its launcher")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_ends_though_its_launcher_ended_before_it_knew_of_the_daemon(
    tmp_path: Path, fork_server: ForkServer, ending: signal.Signals
) -> None:
    """The daemon writes its port to Spark as soon as it runs; the launcher may hear of the daemon after that."""
    real = fork_server.launcher.with_name("fork_server")
    address = str(tmp_path / "fork_server")
    program = [sys.executable, "-S", "-E", fork_client.__file__, sys.executable, address, "-m", "pyspark.daemon"]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as between,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as onward,
    ):
        between.bind(address)
        between.listen()
        with subprocess.Popen([*program, "pyspark.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as launcher:
            connection, _ = between.accept()
            with connection:
                request, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
                onward.connect(str(real))
                socket.send_fds(onward, [request], streams)
                for stream in streams:
                    os.close(stream)
                _port(launcher)
                (forked,) = _children(fork_server.pid)
                launcher.send_signal(ending)
                assert launcher.wait(DEADLINE_S) == -ending
                assert connection.recv(64) == b""
        onward.close()
        wait_for(lambda: not forked.is_running(), DEADLINE_S, "the daemon ends with its launcher")


def test_a_launcher_takes_little_memory_while_its_daemon_runs(fork_server: ForkServer) -> None:
    with _daemon(fork_server.launcher) as daemon:
        _port(daemon)
        (forked,) = _children(fork_server.pid)
        waiting = psutil.Process(daemon.pid)
        wait_for(lambda: waiting.name() == fork_client.WAITING, DEADLINE_S, "the launcher only waits")
        with _daemon(fork_server.launcher) as other:
            _port(other)
            # The later daemon keeps no connection of the earlier launcher.
            forked.kill()
            assert daemon.wait(DEADLINE_S) == 0
            other.terminate()


def test_a_launcher_without_the_program_that_waits_waits_itself(fork_server: ForkServer, tmp_path: Path) -> None:
    with subprocess.Popen(
        [fork_server.launcher, "-m", "pyspark.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PATH": str(tmp_path)},
    ) as daemon:
        _port(daemon)
        (forked,) = _children(fork_server.pid)
        assert daemon.poll() is None
        forked.kill()
        assert daemon.wait(DEADLINE_S) == 0


def test_after_a_daemon_was_killed_another_one_is_forked(fork_server: ForkServer) -> None:
    with _daemon(fork_server.launcher) as daemon:
        _port(daemon)
        (forked,) = _children(fork_server.pid)
        forked.kill()
        assert daemon.wait(DEADLINE_S) == 0
    with _daemon(fork_server.launcher) as another:
        assert 1024 <= _port(another) < 65536
        (follower,) = _children(fork_server.pid)
        assert follower != forked
        another.terminate()
        another.wait(DEADLINE_S)


def test_a_launcher_ends_with_its_daemon_though_a_worker_runs_on(fork_server: ForkServer) -> None:
    with _daemon(fork_server.launcher) as daemon, socket.socket() as caller:
        # The worker waits for what never comes.
        caller.connect(("127.0.0.1", _port(daemon)))
        wait_for(lambda: len(_children(fork_server.pid)) == 2, DEADLINE_S, "the daemon forks a worker")
        forked, worker = sorted(_children(fork_server.pid), key=lambda process: process.create_time())
        forked.kill()
        assert daemon.wait(DEADLINE_S) == 0
        assert worker.is_running()


def test_what_is_no_daemon_is_run_by_python_itself(fork_server: ForkServer) -> None:
    done = subprocess.run(
        [fork_server.launcher, "-c", "import sys; print(sys.executable, *sys.argv[1:])", "a b"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert done.stdout.strip() == f"{sys.executable} a b"


def test_without_its_fork_server_the_launcher_starts_a_daemon_of_its_own(own_fork_server: ForkServer) -> None:
    own_fork_server.close()
    with _daemon(own_fork_server.launcher) as daemon:
        assert 1024 <= _port(daemon) < 65536
        assert psutil.Process(daemon.pid).cmdline()[1:3] == ["-m", "pyspark.daemon"]
        assert daemon.stdin is not None
        daemon.stdin.close()
        daemon.wait(DEADLINE_S)


def test_a_fork_server_that_is_killed_before_it_reads_a_request_is_replaced_by_a_daemon_of_the_launcher_s_own(
    tmp_path: Path,
) -> None:
    address = str(tmp_path / "fork_server")
    program = [sys.executable, "-S", "-E", fork_client.__file__, sys.executable, address, "-m", "pyspark.daemon"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        with subprocess.Popen([*program, "pyspark.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
            connection, _ = listener.accept()
            assert select.select([connection], [], [], DEADLINE_S)[0], "the request is there"
            connection.close()
            assert 1024 <= _port(daemon) < 65536
            assert daemon.stdin is not None
            daemon.stdin.close()
            daemon.wait(DEADLINE_S)


def test_a_launcher_that_is_killed_amid_its_request_leaves_no_stream_open(fork_server: ForkServer) -> None:
    read, written = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
            launcher.connect(str(fork_server.launcher.with_name("fork_server")))
            socket.send_fds(launcher, [b'{"arguments": ["pyspark.dae'], [written] * 3)
        os.close(written)
        assert select.select([read], [], [], DEADLINE_S)[0], "the fork server has closed its copies"
        assert os.read(read, 1) == b""
    finally:
        os.close(read)


def test_for_lack_of_processes_a_launcher_starts_python_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork server stays, and with it the processes that it has forked."""

    def lacks() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", lacks)
    read, written = os.pipe()
    launcher, caller = socket.socketpair()
    with launcher, caller:
        socket.send_fds(launcher, [b'{"arguments": ["pyspark.daemon"], "environment": {}}\n'], [written] * 3)
        os.close(written)
        assert fork_server_module._serve([], caller) is None
    assert select.select([read], [], [], DEADLINE_S)[0], "Spark would wait for the process that has this stream"
    assert os.read(read, 1) == b""
    os.close(read)


def test_the_fork_server_ends_with_its_driver(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("n")
    program = (
        "import os, sys; from pathlib import Path; from twinlog.spark.forking.fork_server import ForkServer;"
        f"print(ForkServer(Path({str(folder)!r})).pid, flush=True); os.kill(os.getpid(), 9)"
    )
    driver = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    pid = int(driver.stdout)
    wait_for(lambda: not psutil.pid_exists(pid), DEADLINE_S, "the fork server ends")


def test_what_was_forked_ends_with_the_fork_server_whatever_it_does(own_fork_server: ForkServer) -> None:
    with _daemon(own_fork_server.launcher) as daemon, _daemon(own_fork_server.launcher) as other:
        _port(daemon)
        _port(other)
        forked = _children(own_fork_server.pid)
        assert len(forked) == 2
        # It would not hear of the end of its standard input.
        forked[0].suspend()
        own_fork_server.close()
        wait_for(lambda: not any(child.is_running() for child in forked), DEADLINE_S, "the daemons are gone")
        # They are our own children.
        assert daemon.wait(DEADLINE_S) == other.wait(DEADLINE_S) == 0


def test_transforms_can_convert_between_numpy_and_arrow() -> None:
    """Functions of users do, and Connect's transforms."""
    program = """
from twinlog.spark.forking.fork_server import preload
preload(numpy=True)
import numpy as np, pyarrow as pa
assert pa.array(np.arange(3)).take(pa.array(np.array([2, 0]))).to_numpy().tolist() == [2, 0]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S * 5)


def test_a_fork_server_for_transforms_forks_processes_that_have_both(tmp_path: Path) -> None:
    server = ForkServer(tmp_path, numpy=True)
    try:
        once = "import numpy, pyarrow; pyarrow.array(numpy.arange(2))"
        program = [server.launcher, "-m", "timeit", "-n", "1", "-r", "1", once]
        subprocess.run(program, check=True, timeout=DEADLINE_S * 5, capture_output=True)
    finally:
        server.close()


def test_numpy_is_not_imported_for_copying_and_can_be_for_rows() -> None:
    """pyarrow imports it where it is there; arrays of rows come out of its memory all the same."""
    program = """
import sys
from twinlog.spark.forking.fork_server import preload
preload()
assert "pyarrow" in sys.modules and "numpy" not in sys.modules
from tests.source_log import New, SourceLog
from twinlog.model.types import TopicPartition
from twinlog.batches.arrow.decode import RowRules, decode
log = SourceLog()
log.batch([New(5, b"v", None, (("h", b"c"),))] * 3)
batch, = decode(log.fetch(), TopicPartition("t", 0), 0, 9, RowRules(headers=True)).batches
assert batch.column("value").to_pylist() == [b"v"] * 3 and batch.column("key").null_count == 3
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=DEADLINE_S * 5)
