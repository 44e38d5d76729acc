"""What the suite needs of a worker: Kafka's own and any other plug in here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from conformance.meant import NEWER, RELEASES
from harness.child import Child
from harness.connect.worker import ConnectWorker, Mode, first_listener, wait_until_it_listens


class Worker(Protocol):
    """One process that serves the API."""

    @property
    def log(self) -> Path:
        """Where it logs, for messages about a worker that does not come up."""
        ...

    def start(self, properties: str) -> str:
        """Start with this properties text; returns the base URL once the first listener accepts connections."""
        ...

    def stop(self) -> bool:
        """SIGTERM; False when it had to be killed."""
        ...

    def kill(self) -> None:
        """SIGKILL; nothing happens when it does not run."""
        ...


@dataclass(frozen=True, slots=True)
class Order:
    """What kind of worker is wanted."""

    mode: Mode
    home: Path
    login: Path | None = None
    """JAAS file, for `-Djava.security.auth.login.config`."""
    connectors: tuple[Path, ...] = ()
    """Files of connectors, of a standalone worker."""
    env: Mapping[str, str] = field(default_factory=dict)


Launch = Callable[[Order], Worker]
"""Makes a worker that does not run yet."""


def kafka(version: str) -> Launch:
    """Apache Kafka's own worker of this version."""

    def launch(order: Order) -> Worker:
        options = [] if order.login is None else [f"-Djava.security.auth.login.config={order.login}"]
        return ConnectWorker(
            order.mode,
            version=version,
            options=options,
            connectors=order.connectors,
            env=order.env,
            work_dir=order.home,
        )

    return launch


class TwinlogWorker:
    """`twinlog connect` of this checkout."""

    def __init__(self, order: Order) -> None:
        order.home.mkdir(parents=True, exist_ok=True)
        self._settings = order.home / "worker.properties"
        login = {} if order.login is None else {"KAFKA_OPTS": f"-Djava.security.auth.login.config={order.login}"}
        command = [sys.executable, "-m", "twinlog", "connect", str(self._settings), *map(str, order.connectors)]
        self._process = Child("twinlog connect", command, order.home / "worker.log", {**login, **order.env})

    @property
    def log(self) -> Path:
        return self._process.log

    def start(self, properties: str) -> str:
        self._settings.write_text(properties, encoding="utf-8")
        url = first_listener(properties)
        self._process.start()
        wait_until_it_listens(self._process, url)
        return url

    def stop(self) -> bool:
        return self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of worker, and the release of Kafka whose forms it answers in."""

    launch: Launch
    release: str


WORKERS: Mapping[str, Kind] = {
    **{release: Kind(kafka(release), release) for release in RELEASES},
    "twinlog": Kind(TwinlogWorker, NEWER),
}
"""By the names that the command and `meant.py` know them by."""
