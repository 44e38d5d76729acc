"""Where calls are played: an arrangement of workers, the clusters they mirror, and the names of all of them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

from conformance.call import NO_BODY, Call, Json, Response
from conformance.meant import RELEASES
from conformance.names import Names
from conformance.sending import send
from conformance.worker import Launch, Order, Worker
from harness.broker import to_properties
from harness.certificates import authority
from harness.child import Started
from harness.cluster import KafkaCluster
from harness.connect.worker import Mode
from harness.ports import claim_port, release_port
from harness.wait import wait_for

START_DEADLINE_S = 180.0
CLEAR_DEADLINE_S = 20.0

STORE_PASSWORD = "store-secret"
"""Of the key store `<dir>/worker.p12`."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Workers that are started together, with one properties text but for their addresses.

    In `settings`, `files` and `connectors` `<here>`, `<here-https>` and `<here-admin>` are the worker's own addresses.
    `files` are written into `<dir>` first, `login` is the JAAS file among them. `headers` go with every call that has
    none of the same name.
    """

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    login: str | None = None
    connectors: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    mode: Mode = "distributed"
    releases: tuple[str, ...] = RELEASES
    """Of Kafka whose workers know these settings."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Calls that are played in their order. Connectors that they leave behind are deleted, unless they may stay."""

    name: str
    arrangement: Arrangement
    steps: tuple[Step, ...]
    leaves: bool = False


class Stage(Started):
    """Use as a context manager: the workers run while it is open."""

    def __init__(
        self, arrangement: Arrangement, launch: Launch, source: KafkaCluster, target: KafkaCluster, home: Path
    ) -> None:
        self.arrangement = arrangement
        self.source = source
        self.target = target
        self._home = home
        (home / "files").mkdir(parents=True)
        certified = authority()
        self._tls = ssl.create_default_context(cadata=certified.pem)
        certified.issue("worker", ["127.0.0.1", "localhost"]).write_pkcs12(
            home / "files" / "worker.p12", STORE_PASSWORD, "worker"
        )
        self._ports: dict[str, int] = {}
        for number in range(1, arrangement.workers + 1):
            for kind in ("worker", "https", "admin"):
                self._ports[f"{kind}-{number}"] = claim_port()
        addresses = {name: f"127.0.0.1:{port}" for name, port in self._ports.items()}
        self.names = Names(
            {"source": source.bootstrap, "target": target.bootstrap, "dir": str(home / "files"), **addresses},
            {"source cluster": source.cluster_id, "target cluster": target.cluster_id},
        )
        for name, text in arrangement.files.items():
            (home / "files" / name).write_text(self.names.put_in(text), encoding="utf-8")
        self.workers: dict[str, Worker] = {
            f"worker-{number}": launch(self._order(number)) for number in range(1, arrangement.workers + 1)
        }

    def start(self) -> None:
        for name in self.workers:
            self.start_worker(name)

    def start_worker(self, name: str) -> None:
        """Start one worker, and wait until it serves connectors."""
        text = self._properties(name.removeprefix("worker-"))
        self.workers[name].start(text)
        last: list[object] = []

        def ready() -> bool:
            with suppress(OSError, HTTPException):
                answer = self.send("GET /health", to=name)
                last[:] = [answer]
                return answer.status == 200 and self.send("GET /connectors", to=name).status == 200
            return False

        try:
            wait_for(ready, START_DEADLINE_S, f"{name} of {self.arrangement.name} is healthy", every_s=0.2)
        except TimeoutError as late:
            log = self.workers[name].log
            tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:] if log.exists() else []
            raise TimeoutError("\n".join([f"{late} {last}", f"--- {log}", *tail])) from late

    def send(
        self,
        request: str,
        *,
        to: str = "worker-1",
        body: Json = NO_BODY,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """One request; raises OSError or HTTPException where there is no answer."""
        method, _, path = request.partition(" ")
        scheme = "https" if to.startswith("https") else "http"
        own = {name.lower() for name in headers or {}}
        inherited = {name: value for name, value in self.arrangement.headers.items() if name.lower() not in own}
        url = f"{scheme}://127.0.0.1:{self._ports[to]}"
        return send(url, method, path, body, headers={**inherited, **(headers or {})}, tls=self._tls)

    def clear(self) -> None:
        """Delete every connector, and wait until none is listed."""

        def gone() -> bool:
            with suppress(OSError, HTTPException):
                listed = self.send("GET /connectors")
                if listed.status != 200:
                    return False
                for name in listed.body:
                    self.send(f"DELETE /connectors/{quote(name, safe='')}")
                return not listed.body
            return False

        wait_for(gone, CLEAR_DEADLINE_S, "no connector is left", every_s=0.1)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.kill()
        for port in self._ports.values():
            release_port(port)

    def _order(self, number: int) -> Order:
        files = self._home / "files"
        login = self.arrangement.login
        return Order(
            self.arrangement.mode,
            self._home / f"worker-{number}",
            None if login is None else files / login,
            tuple(files / name for name in self.arrangement.connectors),
            self.names.put_in(dict(self.arrangement.env)),
        )

    def _properties(self, number: str) -> str:
        name = self.arrangement.name
        settings = {
            "bootstrap.servers": "<target>",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "listeners": "http://<here>",
            "offset.flush.interval.ms": "1000",
        }
        if self.arrangement.mode == "standalone":
            settings["offset.storage.file.filename"] = f"{self._home}/offsets"
        else:
            settings["group.id"] = f"connect-{name}"
            # A worker that was killed is not waited for longer than a rebalance takes.
            settings["scheduled.rebalance.max.delay.ms"] = "1000"
            for kind in ("config", "offset", "status"):
                settings[f"{kind}.storage.topic"] = f"connect-{name}-{kind}"
                settings[f"{kind}.storage.replication.factor"] = "1"
                if kind != "config":
                    settings[f"{kind}.storage.partitions"] = "1"
        text = to_properties({**settings, **self.arrangement.settings})
        text = text.replace("<here>", f"<worker-{number}>")
        for kind in ("https", "admin"):
            text = text.replace(f"<here-{kind}>", f"<{kind}-{number}>")
        return str(self.names.put_in(text))


@dataclass(frozen=True, slots=True)
class Act:
    """What happens between calls, such as the end of a worker."""

    name: str
    run: Callable[[Stage], None]


Step = Call | Act
