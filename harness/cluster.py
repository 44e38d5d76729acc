"""A Kafka cluster on loopback: real KRaft brokers, with and without authentication, whose nodes can be made to fail."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.broker import Broker, Ports, new_kafka_id
from harness.child import Child, Started
from harness.clients import QUICK_TO_CONNECT, ClientConfig, Clients
from harness.errors import HarnessError
from harness.jvm.command import Jit, jvm_command
from harness.jvm.jars import KAFKA_VERSION, Parts
from harness.traffic.relay import Distance, relay_command
from harness.traffic.request_counter import counter_jar
from harness.wait import wait_for

USERS: Mapping[str, str] = {
    "admin": "admin-secret",
    "kafkaui": "kafkaui-secret",
    "connect": "connect1-secret",
    "mirrormaker": "mirrormaker1-secret",
}
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
START_DEADLINE_S = 120.0
FAR, RELAY = "FAR", "RELAY"
"""Names of ports: where a broker listens for the relay, and where the relay listens for clients."""


class KafkaCluster(Started):
    """Brokers started as child processes; use as a context manager, or `start()` and `close()`.

    `nodes`: each is broker and controller. `sasl`: also listen with SASL/PLAIN for `users`. `acls`: Kafka's
    StandardAuthorizer, for which admin and everyone on the plaintext listener are super users. `config`: broker
    settings that win over the ones here. `heap`: -Xmx of each node. `jit`: see `harness.broker.Jit`.
    `counted`: its requests can be read, see `harness.checks.requests`. `plugins`: jars of classes that `config` names.
    `listeners`: further ones by name, each with its `security.protocol` and what else counts for it alone.
    `distance`: clients that begin at `far_bootstrap` stay behind a relay that makes the cluster a far one.
    `racks`: node n stands in rack `rack-n`, and readers in a rack are sent to the replica there.
    `work_dir`: kept when given; otherwise a temporary directory that `close` removes (TWINLOG_KEEP=1 keeps it).
    """

    parts: ClassVar[Parts] = "all"
    counts: ClassVar[Path | None] = None
    """When set, every cluster made from then on counts its requests in files there, which outlive it."""

    def __init__(
        self,
        name: str,
        nodes: int = 1,
        *,
        sasl: bool = True,
        acls: bool = False,
        config: Mapping[str, str] | None = None,
        listeners: Mapping[str, Mapping[str, str]] | None = None,
        distance: Distance | None = None,
        racks: bool = False,
        users: Mapping[str, str] = USERS,
        heap: str = "512m",
        jit: Jit = "quick",
        counted: bool = False,
        plugins: Sequence[Path] = (),
        version: str = KAFKA_VERSION,
        work_dir: Path | None = None,
    ) -> None:
        self.name = name
        self.users = dict(users)
        self.version = version
        self.cluster_id = new_kafka_id()
        self._sasl = sasl
        self._acls = acls
        self._racks = racks
        self._listeners = dict(listeners or {})
        if distance is not None:
            self._listeners[FAR] = {"security.protocol": "PLAINTEXT"}
        self._own_dir = work_dir is None
        self.work_dir = work_dir or Path(tempfile.mkdtemp(prefix=f"twinlog-{name}-"))
        counts = self.counts or (self.work_dir / "counts" if counted else None)
        if counts is not None:
            counts.mkdir(parents=True, exist_ok=True)
        jars = [*plugins, *([] if counts is None else [counter_jar()])]
        command = jvm_command(heap, jit, "kafka.Kafka", version, self.parts, more=jars)
        self.brokers = {
            node: Broker(
                f"{name}-{node}",
                node,
                Ports.claim([*self._listeners, *([RELAY] if distance is not None else [])]),
                self.work_dir / f"node-{node}",
                command,
                version,
                self.parts,
                counts and counts / f"{name}-{node}.{self.cluster_id}",
            )
            for node in range(1, nodes + 1)
        }
        self.relay: Child | None = None
        if distance is not None:
            more = [broker.ports.more for broker in self.brokers.values()]
            command = relay_command(distance, [(ports[RELAY], ports[FAR]) for ports in more])
            self.relay = Child(f"{name}-relay", command, self.work_dir / "relay.log")
        self.clients = Clients(self.client_config(), keep=nodes == 1)
        for broker in self.brokers.values():
            self._format(broker, {**self._settings(broker), **(config or {})})

    # -- starting and stopping

    def start_async(self) -> KafkaCluster:
        """Start every node and return at once; `wait_ready` follows. Lets two clusters start side by side."""
        self.clients.drop()
        for broker in self.brokers.values():
            broker.process.start()
        if self.relay is not None and not self.relay.alive:
            self.relay.start()
        return self

    def start(self) -> KafkaCluster:
        """Start every node and wait until the cluster answers metadata with all of them."""
        return self.start_async().wait_ready()

    def wait_ready(self, deadline_s: float = START_DEADLINE_S) -> KafkaCluster:
        """Wait until every node that was started is in the cluster's metadata.

        Raises HarnessError with the end of a broker's log when a node ends or the deadline passes.
        """
        started = [broker for broker in self.brokers.values() if broker.process.alive]
        # Each node is asked itself: the others may still list a restarted one from before its end.
        admins = [(broker, AdminClient(self._quick_client(broker))) for broker in started]

        def all_there() -> bool:
            for broker, admin in admins:
                broker.process.require_alive()
                try:
                    listed = admin.list_topics(timeout=1).brokers
                except KafkaException:
                    return False
                if not {other.node_id for other in started} <= set(listed):
                    return False
            return True

        try:
            wait_for(all_there, deadline_s, f"cluster {self.name} answers metadata with {len(started)} node(s)")
        except TimeoutError as late:
            tails = "\n".join(f"--- {b.process.log}\n{b.process.log_tail()}" for b in self.brokers.values())
            raise HarnessError(f"{late}\n{tails}") from late
        return self

    def stop(self, deadline_s: float = 20.0) -> None:
        """SIGTERM every node (SIGKILL after the deadline); the data stays, `start` continues with it."""
        self.clients.drop()
        for broker in self.brokers.values():
            broker.process.terminate(deadline_s)

    def close(self) -> None:
        """Kill every node, give the ports back, and remove the temporary data."""
        self.clients.drop()
        for broker in self.brokers.values():
            broker.process.kill()
            broker.ports.release()
        if self.relay is not None:
            self.relay.kill()
        if self._own_dir and not os.environ.get("TWINLOG_KEEP"):
            shutil.rmtree(self.work_dir, ignore_errors=True)

    # -- making nodes fail

    def kill(self, node: int = 1) -> None:
        """SIGKILL: what a crashed machine looks like to its clients."""
        self.clients.drop()
        self.brokers[node].process.kill()

    def terminate(self, node: int = 1, deadline_s: float = 20.0) -> None:
        """SIGTERM: an orderly shutdown, leaders move away first where there are other replicas."""
        self.clients.drop()
        self.brokers[node].process.terminate(deadline_s)

    def suspend(self, node: int = 1) -> None:
        """SIGSTOP: connections stay open and nothing answers, as behind a hanging network."""
        self.clients.drop()
        self.brokers[node].process.suspend()

    def resume(self, node: int = 1) -> None:
        """SIGCONT after `suspend`."""
        self.clients.drop()
        self.brokers[node].process.resume()

    def restart(self, node: int = 1, *, wait: bool = True) -> None:
        """Start a killed or terminated node on its old ports and data; a running one is terminated first."""
        self.brokers[node].process.terminate()
        self.brokers[node].process.start()
        self.clients.drop()
        if wait:
            self.wait_ready()

    @property
    def pids(self) -> list[int]:
        """Process ids of the running nodes."""
        return [broker.pid for broker in self.brokers.values() if broker.process.alive]

    # -- reaching it

    @property
    def bootstrap(self) -> str:
        """host:port list of the listeners without authentication."""
        return ",".join(f"127.0.0.1:{broker.ports.plaintext}" for broker in self.brokers.values())

    @property
    def sasl_bootstrap(self) -> str:
        """host:port list of the SASL/PLAIN listeners."""
        if not self._sasl:
            raise HarnessError(f"cluster {self.name} was made with sasl=False.")
        return ",".join(f"127.0.0.1:{broker.ports.sasl}" for broker in self.brokers.values())

    def listener(self, name: str, host: str = "127.0.0.1") -> str:
        """host:port list of one of the further listeners."""
        return ",".join(f"{host}:{broker.ports.more[name]}" for broker in self.brokers.values())

    @property
    def far_bootstrap(self) -> str:
        """host:port list of the relay: whoever begins here is sent there by every broker, too."""
        if self.relay is None:
            raise HarnessError(f"cluster {self.name} was made without a distance.")
        return self.listener(RELAY)

    def client_config(self, user: str | None = None) -> ClientConfig:
        """Settings for confluent_kafka; without a user, for the plaintext listener. Its log chatter is off."""
        settings: ClientConfig = {"bootstrap.servers": self.bootstrap, "log_level": 0, **QUICK_TO_CONNECT}
        if user is not None:
            settings |= {
                "bootstrap.servers": self.sasl_bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": self.users[user],
            }
        return settings

    def java_settings(self, user: str | None = None, prefix: str = "") -> dict[str, str]:
        """The same for Java clients and MirrorMaker 2, each key after `prefix` (such as `source.`)."""
        settings = {"bootstrap.servers": self.bootstrap}
        if user is not None:
            settings = {
                "bootstrap.servers": self.sasl_bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN_LOGIN} username="{user}" password="{self.users[user]}";',
            }
        return {prefix + key: value for key, value in settings.items()}

    def java_properties(self, user: str | None = None, prefix: str = "") -> str:
        """`java_settings` as lines of a properties file."""
        return "".join(f"{key}={value}\n" for key, value in self.java_settings(user, prefix).items())

    # -- settings

    def _format(self, broker: Broker, settings: Mapping[str, str]) -> None:
        broker.format(self.cluster_id, settings)

    def _quick_client(self, broker: Broker) -> ClientConfig:
        return {
            "bootstrap.servers": f"127.0.0.1:{broker.ports.plaintext}",
            "log_level": 0,
            **QUICK_TO_CONNECT,
        }

    def _settings(self, broker: Broker) -> dict[str, str]:
        nodes = len(self.brokers)
        ports = broker.ports
        listeners = f"CONTROLLER://127.0.0.1:{ports.controller},PLAINTEXT://127.0.0.1:{ports.plaintext}"
        if self._sasl:
            listeners += f",SASL://127.0.0.1:{ports.sasl}"
        protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT"
        for name, own in self._listeners.items():
            listeners += f",{name}://127.0.0.1:{ports.more[name]}"
            protocols += f",{name}:{own['security.protocol']}"
        copies = str(min(nodes, 3))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(broker.node_id),
            "listeners": listeners,
            "listener.security.protocol.map": protocols,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{other.ports.controller}" for node, other in self.brokers.items()
            ),
            # Tests decide which topics exist; one created by accident would hide an error.
            "auto.create.topics.enable": "false",
            "default.replication.factor": copies,
            "min.insync.replicas": "1",
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A crashed node that comes back must wait out its old session; a suspended one is fenced after it.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            # Else the controller appends a NoOpRecord twice a second, and every node takes it in.
            "metadata.max.idle.interval.ms": "0",
            # Tests write records with old timestamps; they go only where the topic itself asks for it.
            "log.retention.ms": "-1",
            # Compaction, retention and expiry within a test's patience, where the topic asks for them.
            "log.cleaner.backoff.ms": "500",
            "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
            "log.retention.check.interval.ms": "500",
            "log.segment.delete.delay.ms": "500",
            "log.initial.task.delay.ms": "500",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "num.recovery.threads.per.data.dir": "1",
            "log.message.timestamp.before.max.ms": str(2**63 - 1),
            "log.message.timestamp.after.max.ms": str(2**63 - 1),
        }
        if self.relay is not None:
            _, shown = listeners.split(",", 1)
            settings["advertised.listeners"] = shown.replace(f":{ports.more[FAR]}", f":{ports.more[RELAY]}")
        if self._racks:
            selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
            settings |= {"broker.rack": f"rack-{broker.node_id}", "replica.selector.class": selector}
        if self._sasl:
            logins = " ".join(f'user_{user}="{password}"' for user, password in self.users.items())
            settings |= {
                "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_LOGIN} {logins};",
            }
        for name, own in self._listeners.items():
            prefix = f"listener.name.{name.lower()}."
            settings |= {prefix + key: value for key, value in own.items() if key != "security.protocol"}
        if self._acls:
            settings |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:admin;User:ANONYMOUS",
            }
        return settings


@contextmanager
def side_by_side(source: KafkaCluster, target: KafkaCluster) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Start two clusters of a test at once and wait for both; the end of the block closes both.

    Both are closed also where a cluster does not start.
    """
    try:
        source.start_async()
        target.start_async()
        yield source.wait_ready(), target.wait_ready()
    finally:
        source.close()
        target.close()
