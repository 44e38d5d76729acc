"""Forks Spark's Python processes from a process that has imported their modules once.

Spark starts a process for each kind of Python work (looking up a data source, planning, the source of a query, its
tasks). Each process and each of its workers would import the same modules again: seconds of a start, and tens of
megabytes for each. So `PYSPARK_PYTHON` names a small program (`fork_client.py`) that hands its arguments, environment
and standard streams to the fork server and waits; the fork server forks, and its child does the work. Only for local
masters.

Run as `python -m twinlog.spark.forking.fork_server FD [numpy]`, where FD is a listening Unix socket; the process ends
with its standard input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

PRELOADED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark_twinlog",
)
MAX_REQUEST_BYTES = 1 << 20
STREAMS = 3
MAX_CHILDREN = 4096
"""Ends of children that are collected at once."""

# `-S -E` omit the slow parts of Python's start; the daemon gets its own environment from the request.
_LAUNCHER = """\
#!/bin/sh
exec "{python}" -S -E "{program}" "{python}" "{address}" "$@"
"""


class ForkServer:
    """The running fork server, as the driver uses it. Its files lie in `folder`. Raises OSError.

    Only with `numpy` can the forked processes convert between arrays of numpy and pyarrow.
    """

    def __init__(self, folder: Path, *, numpy: bool = False) -> None:
        self._folder = folder
        self.launcher = folder / "python"
        address = folder / "fork_server"
        program = Path(__file__).with_name("fork_client.py")
        self.launcher.write_text(_LAUNCHER.format(python=sys.executable, program=program, address=address))
        self.launcher.chmod(self.launcher.stat().st_mode | stat.S_IXUSR)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(address))
            listener.listen(128)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(listener.fileno()), *(["numpy"] if numpy else [])],
                stdin=subprocess.PIPE,
                pass_fds=(listener.fileno(),),
                # Ctrl-C is for the driver, which ends its children in order. A session of its own would get its own
                # share of the processors (autogroups), at the expense of the brokers of the same machine.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The process that forks."""
        return self._process.pid

    def close(self) -> None:
        """End the fork server, and with it the forked processes and their remains."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Serve until standard input ends; then kill the remaining children, with all processes of their groups."""
    given = int(sys.argv[1])
    # The parent process may have thousands of open files, and select takes only numbers below 1024.
    listener = socket.socket(fileno=os.dup(given))
    os.close(given)
    preload(numpy="numpy" in sys.argv[2:])
    gc.collect()
    children: dict[int, socket.socket] = {}
    ended, noted = os.pipe()
    for end in (ended, noted):
        os.set_blocking(end, False)
    # The handler only makes the pipe readable.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(noted)
    # The collector must leave alone the pages that are shared with the children.
    gc.freeze()
    watched = select.poll()
    for source in (0, listener.fileno(), ended):
        watched.register(source, select.POLLIN)
    while True:
        ready = {source for source, _ in watched.poll()}
        if ended in ready:
            os.read(ended, MAX_CHILDREN)
            # The kernel reuses a process id only after its child was waited for.
            for pid in [pid for pid in children if os.waitpid(pid, os.WNOHANG) != (0, 0)]:
                caller = children.pop(pid)
                if caller.fileno() >= 0:
                    watched.unregister(caller)
                caller.close()
        for pid, caller in children.items():
            if caller.fileno() in ready:
                # Spark has ended the process that it takes for this child.
                watched.unregister(caller)
                caller.close()
                os.kill(pid, signal.SIGTERM)
        if 0 in ready:
            break
        if listener.fileno() in ready:
            caller, _ = listener.accept()
            child = _serve([listener, *children.values()], caller)
            if child is None:
                caller.close()
            else:
                children[child] = caller
                watched.register(caller, select.POLLIN)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def preload(*, numpy: bool = False) -> None:
    """Import the modules that the children need.

    If `numpy` is False, pyarrow lacks its conversions for numpy in this process. pyarrow would import an installed
    numpy, which costs a tenth of a second and 18 MB. A child that needs only numpy can import it; a user's transform
    needs both.
    """
    # OpenBLAS would start a thread for each processor in a process that forks, and in each child that imports numpy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if not numpy:
        # Python takes None for a missing module.
        sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        for name in PRELOADED:
            importlib.import_module(name)
    finally:
        if not numpy:
            del sys.modules["numpy"]


def _serve(own: Iterable[socket.socket], caller: socket.socket) -> int | None:
    """Fork for a caller; returns the child, which leads a group of its own as Spark's daemons do.

    The child closes `own` sockets of this process. The caller's connection stays with this process. None for a caller
    that was killed, and for lack of processes or memory: the caller then starts Python itself.
    """
    streams: list[int] = []
    try:
        data, streams, _, _ = socket.recv_fds(caller, MAX_REQUEST_BYTES, STREAMS)
        while not data.endswith(b"\n") and (more := caller.recv(MAX_REQUEST_BYTES)):
            data += more
        request = json.loads(data)
        pid = os.fork()
    except (OSError, ValueError):
        # Spark takes an open stream for a living process.
        for stream in streams:
            os.close(stream)
        return None
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setpgid(0, 0)
        for mine in (*own, caller):
            mine.close()
        _become(streams, request["arguments"], request["environment"])
    # Parent and child both set the group; the later of the two calls fails.
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    for stream in streams:
        os.close(stream)
    # The connection of a caller that has gone ends, and with it the child.
    with contextlib.suppress(OSError):
        caller.sendall(b"\n")
    return pid


def _become(streams: list[int], arguments: list[str], environment: dict[str, str]) -> NoReturn:
    """Continue like a process started as `python -m ARGUMENTS`."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = list(arguments)
        # The warning is about a module that was imported before, which is the purpose here.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        # The arguments of pyspark's own errors lack the reason.
        sys.stderr.write(f"{arguments[0]}: {type(error).__name__}: {error}\n")
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
