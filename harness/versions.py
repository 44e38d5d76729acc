"""Clusters of other releases of Kafka on loopback: releases before 3.0 have a ZooKeeper, which keeps their metadata."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from harness.broker import Broker, to_properties
from harness.child import Child
from harness.cluster import KafkaCluster
from harness.jvm.command import jvm_command
from harness.jvm.jars import Parts
from harness.jvm.tools import run_tool
from harness.ports import claim_port, release_port
from harness.wait import wait_for

RELEASES = ("2.1.1", "2.8.2", "3.3.2", "3.9.2", "4.0.2", "4.2.1", "4.4.0")
"""The oldest and the newest release, and those after which the brokers' protocols changed most."""

OLDEST = os.environ.get("TWINLOG_OLD_KAFKA", "2.1.1")
"""A release of the oldest line that twinlog works with; the variable takes a newer one."""

ZOOKEEPER_DEADLINE_S = 60.0
_ELECTION = "kafka.admin.PreferredReplicaLeaderElectionCommand"
_KRAFT_ONLY = ("process.roles", "node.id", "controller.", "share.", "broker.session", "broker.heartbeat", "metadata.")


class ZooKeeperCluster(KafkaCluster):
    """A `KafkaCluster` of a release before 3.0, with a listener without authentication; `config` as there."""

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


class OtherKafkaCluster(KafkaCluster):
    """A cluster of another release with KRaft, from 3.3 on."""

    parts: ClassVar[Parts] = "broker"


def make_cluster(release: str, name: str, config: Mapping[str, str]) -> KafkaCluster:
    """A cluster of one broker; releases before 3.0 have a ZooKeeper."""
    if release.startswith("2."):
        return ZooKeeperCluster(name, config=config, version=release)
    return OtherKafkaCluster(name, sasl=False, config=config, version=release)
