"""A real standalone Spark on loopback: a master and workers from pyspark's own jars, whose workers can be killed."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import psutil

from harness.child import Child, Started, below, send
from harness.errors import HarnessError
from harness.ports import claim_port, release_port
from harness.wait import wait_for
from twinlog.process.jvm import use_options

START_DEADLINE_S = 120.0
HOST = "127.0.0.1"
CHEAP_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For JVMs that live for a minute: a processor spends more on the better compiler than that wins back."""
LEADS = "I have been elected leader"
REGISTERED = "Successfully registered with master"
NAMED = ("unshare", "--uts", "/bin/sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname && exec "$@"')
"""Runs a program on a machine of another name; the name and the program follow."""

_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"


def spark_home() -> Path:
    """Where pyspark keeps its jars and scripts."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise HarnessError("pyspark is not installed; install the development requirements.")
    return Path(spec.origin).parent


def can_name_hosts() -> bool:
    """Whether this process may start programs on machines of other names: a container may lack the right."""
    try:
        return subprocess.run([*NAMED, "rack", "true"], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


class SparkWorker:
    """One worker daemon, which starts executors as its children; `host` is the name of its machine, "" for this one."""

    def __init__(self, process: Child, host: str = "") -> None:
        self.process = process
        self.host = host

    @property
    def executors(self) -> list[psutil.Process]:
        """Its executors' JVMs, which run now."""
        return [
            child
            for child in psutil.Process(self.process.pid).children()
            if any("CoarseGrainedExecutorBackend" in word for word in _command(child))
        ]

    def decommission(self) -> None:
        """SIGPWR, as a node's manager sends it: the executors here end once their tasks have."""
        psutil.Process(self.process.pid).send_signal(signal.SIGPWR)

    def suspend(self) -> None:
        """SIGSTOP everything below it, as a machine that is cut off: connections stay, and nobody answers."""
        self.process.suspend()
        send(signal.SIGSTOP, below(self.process.pid))

    def kill(self) -> list[psutil.Process]:
        """SIGKILL the worker and everything below it at once, as a machine that is switched off; returns what died."""
        lost = below(self.process.pid)
        self.process.suspend()
        send(signal.SIGKILL, lost)
        self.process.kill()
        psutil.wait_procs(lost, timeout=60)
        return lost


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class SparkCluster(Started):
    """Master and workers as child processes; use as a context manager.

    Tests may share one: each begins with the number of workers that it needs. A worker has `cores` and `memory_mb` for
    executors. Executors take the Python that the driver asks for. With `hosts` workers are by turns on machines of
    these names, see `can_name_hosts`.
    `work_dir` is a temporary directory that `close` removes, with TWINLOG_KEEP=1 it stays.
    """

    def __init__(self, *, cores: int = 1, memory_mb: int = 700, hosts: Sequence[str] = ()) -> None:
        self._hosts = hosts
        self.work_dir = Path(tempfile.mkdtemp(prefix="twinlog-spark-"))
        self._port = claim_port()
        self.master = f"spark://{HOST}:{self._port}"
        self._env = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            # Of executors too. Class path and class archive are those of a driver.
            "JDK_JAVA_OPTIONS": f"{CHEAP_JVM} {use_options()}",
            "SPARK_LOCAL_DIRS": str(self.work_dir / "local"),
            # Without it a worker has no ear for SIGPWR, which then kills it.
            "SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true",
        }
        self._master = self._child("master", _MASTER, "--host", HOST, "--port", str(self._port), "--webui-port", "0")
        self._worker_words = ("--cores", str(cores), "--memory", f"{memory_mb}m")
        self._numbers = itertools.count(1)
        self.workers: list[SparkWorker] = []

    def _child(self, name: str, main_class: str, *words: str, host: str = "") -> Child:
        command = [str(spark_home() / "bin" / "spark-class"), main_class, *words]
        if host:
            command = [*NAMED, host, *command]
        # Not this process's settings: a worker's Python is what the driver asks for.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
        return Child(f"spark-{name}", command, self.work_dir / f"{name}.log", env={**env, **self._env})

    @property
    def driver_settings(self) -> dict[str, str]:
        """Spark settings of an application: everything on loopback, and a JVM that is cheap to start."""
        return {
            "spark.driver.host": HOST,
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": CHEAP_JVM,
        }

    @property
    def options(self) -> list[str]:
        """The same for the command line of twinlog, and the master."""
        settings = (("--conf", f"{key}={value}") for key, value in self.driver_settings.items())
        return ["--master", self.master, *itertools.chain.from_iterable(settings)]

    def start(self) -> SparkCluster:
        """Start the master and return once it takes workers; there are none yet, see `have`."""
        self._master.start()

        def leads() -> bool:
            self._master.require_alive()
            return LEADS in self._master.log.read_text(errors="replace")

        wait_for(leads, START_DEADLINE_S, "Spark's master takes workers")
        return self

    def have(self, count: int) -> SparkCluster:
        """Kill or start workers until there are so many; returns when each is registered."""
        there = [worker for worker in self.workers if worker.process.alive]
        for worker in there[count:]:
            worker.kill()
        fresh = [self._worker(next(self._numbers)) for _ in range(count - len(there))]
        for worker in fresh:
            worker.process.start()
        self.workers = [*there[:count], *fresh]

        def registered() -> bool:
            for child in (self._master, *(worker.process for worker in self.workers)):
                child.require_alive()
            return all(REGISTERED in worker.process.log.read_text(errors="replace") for worker in fresh)

        try:
            wait_for(registered, START_DEADLINE_S, f"{count} Spark workers have registered")
        except TimeoutError as late:
            raise HarnessError(f"{late}\n{self._master.log_tail()}") from late
        return self

    def drop(self, worker: SparkWorker) -> None:
        """Kill a worker; the next `have` starts another in its place."""
        if worker.process.alive:
            worker.kill()
        self.workers.remove(worker)

    def _worker(self, number: int) -> SparkWorker:
        name = f"worker-{number}"
        words = ("--host", HOST, "--webui-port", "0", *self._worker_words, "--work-dir", str(self.work_dir / name))
        host = self._hosts[(number - 1) % len(self._hosts)] if self._hosts else ""
        return SparkWorker(self._child(name, _WORKER, *words, self.master, host=host), host)

    def close(self) -> None:
        """Kill what runs and remove the directory."""
        for worker in self.workers:
            if worker.process.alive:
                worker.kill()
        self._master.kill()
        release_port(self._port)
        if not os.environ.get("TWINLOG_KEEP"):
            shutil.rmtree(self.work_dir, ignore_errors=True)
