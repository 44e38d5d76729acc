"""Kafka Connect's own worker, distributed or standalone, as a child process."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

import javaproperties

from harness.child import Child
from harness.errors import HarnessError
from harness.jvm.command import Jit, jvm_command
from harness.jvm.jars import KAFKA_VERSION, Parts
from harness.wait import wait_for

Mode = Literal["distributed", "standalone"]

MAIN_CLASSES: dict[Mode, str] = {
    "distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "standalone": "org.apache.kafka.connect.cli.ConnectStandalone",
}
START_DEADLINE_S = 120.0

_LOG4J_1 = """log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %X{connector.context}%m (%c:%L)%n
"""
_LOG4J_2 = """appender.stdout.type=Console
appender.stdout.name=STDOUT
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=[%d] %p %X{connector.context}%m (%c:%L)%n
rootLogger.level=INFO
rootLogger.appenderRef.stdout.ref=STDOUT
"""


class ConnectWorker:
    """One worker of Kafka `version`. Several with one `group.id` and the same storage topics are one group.

    `options` are further ones of its JVM, such as a JAAS file's: what an installation passes in KAFKA_OPTS.
    `connectors` are the files that a standalone worker takes, `env` variables on top of our own. The log file stays in
    `work_dir`, and so do the settings unless `settings` is another file. With the `parts` `all` nothing is fetched for
    it besides what brokers of that version need, and the levels of its loggers cannot be asked for.
    """

    def __init__(
        self,
        mode: Mode = "distributed",
        *,
        version: str = KAFKA_VERSION,
        options: Sequence[str] = (),
        connectors: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        heap: str = "512m",
        jit: Jit = "quick",
        work_dir: Path | None = None,
        settings: Path | None = None,
        parts: Parts = "connect",
    ) -> None:
        self._home = work_dir or Path(tempfile.mkdtemp(prefix="twinlog-connect-"))
        self._home.mkdir(parents=True, exist_ok=True)
        self._settings = settings or self._home / "worker.properties"
        java, *rest = jvm_command(heap, jit, MAIN_CLASSES[mode], version, parts)
        command = [java, *options, self._log_option(version), *rest, str(self._settings), *map(str, connectors)]
        self.process = Child(f"Connect {version}", command, self._home / "worker.log", env)

    @property
    def log(self) -> Path:
        """What the worker has logged, over all its starts."""
        return self.process.log

    def start(self, properties: str) -> str:
        """Start with this properties text, and return its base URL once the port of its first listener is open.

        Connect opens it before the worker is in its group: until then it answers 404, or 503 at `/health`. Raises
        HarnessError with the end of the log when the worker ends instead.
        """
        self._settings.write_text(properties, encoding="utf-8")
        url = first_listener(properties)
        self.process.start()

        wait_until_it_listens(self.process, url)
        return url

    def stop(self, deadline_s: float = 30.0) -> bool:
        """SIGTERM, on which it leaves its group; SIGKILL and False after the deadline."""
        return self.process.terminate(deadline_s)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def __enter__(self) -> ConnectWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _log_option(self, version: str) -> str:
        old = version.startswith("3.")
        file = self._home / "log4j.properties"
        file.write_text(_LOG4J_1 if old else _LOG4J_2, encoding="utf-8")
        return f"-Dlog4j.configuration=file:{file}" if old else f"-Dlog4j2.configurationFile={file}"


def first_listener(properties: str) -> str:
    """URL of the first address in `listeners`, on loopback where it stands for every interface."""
    listeners = javaproperties.loads(properties).get("listeners", "http://:8083")
    scheme, _, address = listeners.split(",")[0].strip().partition("://")
    parts = urlsplit(f"//{address}")
    if not parts.port:
        raise HarnessError(f"The worker's first listener must name its port: {listeners}")
    host = "127.0.0.1" if parts.hostname in (None, "0.0.0.0") else parts.hostname
    return f"{scheme.lower()}://{host}:{parts.port}"


def wait_until_it_listens(process: Child, url: str) -> None:
    """Wait until a worker's port is open. Raises HarnessError with the end of its log when it ends instead."""

    def listens() -> bool:
        process.require_alive()
        return _listens(url)

    wait_for(listens, START_DEADLINE_S, f"{process.name} listens at {url}")


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=2):
            return True
    except OSError:
        return False
