"""Workers of Kafka Connect of both systems: the same file, the same connectors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.stage.meter import MB, rss_and_pss
from bench.systems import COMMAND, MM2_HEAP, STOP_S, TARGET, TITLES, MirrorName
from harness.broker import to_properties
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.connect.mm2 import CONNECTORS_ONE_REPLICA
from harness.connect.worker import ConnectWorker
from harness.errors import HarnessError
from harness.ports import claim_port, release_port
from twinlog.errors import RequestError, TwinlogError
from twinlog.ops.connectors.rest import Access, ConnectRest

LOOK_EVERY_S = 0.02
DEADLINE_S = 300.0
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class BenchWorker:
    """One worker, alone in the group `group`, on the target; use as a context manager: it starts and ends with it."""

    def __init__(self, system: MirrorName, group: str, target: KafkaCluster, work: Path) -> None:
        self.system = system
        home = work / group
        home.mkdir(parents=True, exist_ok=True)
        self._port = claim_port()
        properties = to_properties(
            {
                "bootstrap.servers": target.bootstrap,
                "group.id": group,
                "listeners": f"http://127.0.0.1:{self._port}",
                "key.converter": BYTES,
                "value.converter": BYTES,
                **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
                **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            }
        )
        file = home / "worker.properties"
        file.write_text(properties, encoding="utf-8")
        if system == "mm2":
            self.process = ConnectWorker(heap=MM2_HEAP, jit="full", work_dir=home).process
        else:
            self.process = Child("twinlog connect", [str(COMMAND), "connect", str(file)], home / "worker.log")
        self._rest = ConnectRest(Access("127.0.0.1", self._port), lambda text: None, patience_s=DEADLINE_S)
        self._at_once = ConnectRest(Access("127.0.0.1", self._port), lambda text: None, patience_s=0)
        self.started = 0.0

    def __enter__(self) -> BenchWorker:
        self.process.start()
        self.started = time.monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.terminate(STOP_S)
        release_port(self._port)

    @property
    def url(self) -> str:
        return self._rest.access.url

    def answered(self) -> float:
        """Wait for the first good answer to `GET /`; seconds since the start of the process."""
        while True:
            try:
                self._at_once.get()
            except TwinlogError:
                self._wait("answered")
            else:
                return time.monotonic() - self.started

    def post_at_once(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector as soon as the worker takes it."""
        while True:
            try:
                self._at_once.send_request("POST", "connectors", body={"name": name, "config": dict(config)})
            except TwinlogError as error:
                if isinstance(error, RequestError) and error.status not in {404, 409, 500, 503}:
                    raise self.failed(f"{name} was refused: {error}") from error
                self._wait(f"taken {name}")
            else:
                return

    def create(self, connectors: Mapping[str, Mapping[str, str]]) -> None:
        """Create connectors, and wait until each of them runs with one task."""
        for name, config in connectors.items():
            self.post_at_once(name, config)
        while True:
            found = self._rest.get("connectors", expand="status")
            parts = [
                status for one in found.values() for status in (one["status"]["connector"], *one["status"]["tasks"])
            ]
            if len(parts) == 2 * len(connectors) and {part["state"] for part in parts} == {"RUNNING"}:
                return
            failed = [part for part in parts if part["state"] == "FAILED"]
            if failed:
                raise self.failed(f"a connector failed: {failed[0]}")
            self._wait(f"begun all of {len(connectors)} connectors")

    def memory_mb(self) -> tuple[float, float]:
        """PSS and RSS of the worker, with all that it has started."""
        both = [rss_and_pss(process) for process in self._family()]
        return sum(pss for _, pss in both) / MB, sum(rss for rss, _ in both) / MB

    def threads(self) -> int:
        return sum(process.num_threads() for process in self._family())

    def connections(self) -> int:
        """To brokers and others, both counted that are open."""
        every = [one for process in self._family() for one in process.net_connections("tcp")]
        return sum(1 for one in every if one.status == psutil.CONN_ESTABLISHED)

    def cpu_s(self) -> float:
        times = [process.cpu_times() for process in self._family()]
        return sum(used.user + used.system for used in times)

    def failed(self, why: str) -> HarnessError:
        return HarnessError(f"{TITLES[self.system]}: {why}. Its log ends:\n{self.process.log_tail(40)}")

    def _family(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def _wait(self, for_what: str) -> None:
        self.process.require_alive()
        if time.monotonic() - self.started > DEADLINE_S:
            raise self.failed(f"the worker has not {for_what} after {DEADLINE_S:g} s")
        time.sleep(LOOK_EVERY_S)


def connector(kind: str, alias: str, source: KafkaCluster, target: KafkaCluster, **more: str) -> dict[str, str]:
    """The configuration of a `Source`, `Checkpoint` or `Heartbeat` connector; underscores in names stand for dots."""
    return {
        "connector.class": f"{MIRROR}{kind}Connector",
        "source.cluster.alias": alias,
        "target.cluster.alias": TARGET,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        **CONNECTORS_ONE_REPLICA,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
