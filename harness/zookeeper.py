"""A Kafka cluster of a release before 3.0 on loopback: real brokers, and the ZooKeeper that keeps their metadata."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from harness.broker import Broker, jvm_command, to_properties
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.jars import Parts
from harness.ports import claim_port, release_port
from harness.tools import run_tool
from harness.wait import wait_for

OLDEST = os.environ.get("TWINLOG_OLD_KAFKA", "2.1.1")
"""A release of the oldest line that twinlog works with; the variable takes a newer one."""

ZOOKEEPER_DEADLINE_S = 60.0
_ELECTION = "kafka.admin.PreferredReplicaLeaderElectionCommand"
_KRAFT_ONLY = ("process.roles", "node.id", "controller.", "share.", "broker.session", "broker.heartbeat", "metadata.")


class ZooKeeperCluster(KafkaCluster):
    """A `KafkaCluster` of such a release, with a listener without authentication; `config` as there."""

    parts: ClassVar[Parts] = "zookeeper"

    def __init__(
        self, name: str, nodes: int = 1, *, config: Mapping[str, str] | None = None, version: str = OLDEST
    ) -> None:
        self._zookeeper_port = claim_port()
        super().__init__(name, nodes, sasl=False, config=config, version=version)
        home = self.work_dir / "zookeeper"
        home.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": str(home / "data"),
            "clientPort": str(self._zookeeper_port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
        file = home / "zookeeper.properties"
        file.write_text(to_properties(settings), encoding="utf-8")
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        command = jvm_command("128m", "quick", main, version, self.parts)
        # Its beans for logging look for classes of a log backend that is not there.
        command.insert(1, "-Dzookeeper.jmx.log4j.disable=true")
        self.zookeeper = Child(f"{name}-zookeeper", [*command, str(file)], home / "zookeeper.log")

    def elect_preferred(self) -> None:
        """Begin to have each partition led by the first of its replicas again."""
        where = f"127.0.0.1:{self._zookeeper_port}"
        run_tool(_ELECTION, ["--zookeeper", where], version=self.version, parts=self.parts)

    def start_async(self) -> ZooKeeperCluster:
        if not self.zookeeper.alive:
            self.zookeeper.start()
            wait_for(self._zookeeper_answers, ZOOKEEPER_DEADLINE_S, f"the ZooKeeper of {self.name} takes connections")
        super().start_async()
        return self

    def close(self) -> None:
        super().close()
        self.zookeeper.kill()
        release_port(self._zookeeper_port)

    def _zookeeper_answers(self) -> bool:
        self.zookeeper.require_alive()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._zookeeper_port), timeout=1):
            return True
        return False

    def _format(self, broker: Broker, settings: Mapping[str, str]) -> None:
        broker.write_settings(settings)

    def _settings(self, broker: Broker) -> dict[str, str]:
        settings = super()._settings(broker)
        own = {key: value for key, value in settings.items() if not key.startswith(_KRAFT_ONLY)}
        _, listeners = own["listeners"].split(",", 1)
        return own | {
            "broker.id": str(broker.node_id),
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            "zookeeper.connect": f"127.0.0.1:{self._zookeeper_port}",
            "zookeeper.session.timeout.ms": "4000",
        }
