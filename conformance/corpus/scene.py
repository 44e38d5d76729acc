"""Three clusters with what `stock` says, which are as before after each run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from conformance.corpus.stock import GROUPS, STOCK, records
from harness.certificates import Certified, authority
from harness.child import Started
from harness.cluster import KafkaCluster
from harness.consume import ends
from harness.groups import commit_offsets, group_offsets
from harness.produce import produce
from harness.topics import DEADLINE_S, create_topic, topics
from harness.wait import wait_for

STORE = "store-secret"
SECRETS = {"password": "mirrormaker1-secret", "store": STORE}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
ENVIRONMENT = {"CORPUS_STORE": STORE, "CORPUS_TOPICS": "orders"}
"""Variables that files refer to."""


class Scene(Started):
    """Use as a context manager. `directory` has key stores and secrets, which files name by `<dir>`."""

    def __init__(self, directory: Path, names: Iterable[str] = STOCK) -> None:
        self._directory = directory
        self._root = authority()
        self._stage_files()
        listeners = self._listeners(self._root.issue("broker", ["127.0.0.1"]))
        # A policy with a prefix may keep names apart on one cluster.
        self.clusters = {name: KafkaCluster(name, heap="256m", listeners=listeners) for name in names}
        self._running = ExitStack()

    def start(self) -> None:
        os.environ.update(ENVIRONMENT)
        for cluster in self.clusters.values():
            self._running.callback(cluster.close)
            cluster.start_async()
        for cluster in self.clusters.values():
            cluster.wait_ready()
            user = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            wanted = UserScramCredentialUpsertion("mirrormaker", user, SECRETS["password"].encode())
            cluster.clients.admin().alter_user_scram_credentials([wanted])["mirrormaker"].result(DEADLINE_S)

    def close(self) -> None:
        self._running.close()

    def put_in(self, text: str) -> str:
        """Addresses and paths in the place of their names."""
        for name, cluster in self.clusters.items():
            text = text.replace(f"<{name}>", cluster.bootstrap).replace(f"<{name}-sasl>", cluster.sasl_bootstrap)
            for listener in ("TLS", "SCRAM"):
                text = text.replace(f"<{name}-{listener.lower()}>", cluster.listener(listener))
        return text.replace("<dir>", str(self._directory))

    def reset(self) -> None:
        """Have each cluster hold its stock and nothing else."""
        for name, cluster in self.clusters.items():
            there = topics(cluster)
            full = {topic: one.count for topic, one in STOCK[name].items()}
            kept = {
                topic
                for topic, count in ends(cluster, full).items()
                if count == full[topic] and there[topic] == STOCK[name][topic].partitions
            }
            _delete_topics(cluster, [topic for topic in there if not topic.startswith("__") and topic not in kept])
            _delete_groups(cluster, [group for group in group_offsets(cluster) if group not in GROUPS[name]])
            for topic, one in STOCK[name].items():
                if topic in kept:
                    continue
                create_topic(cluster, topic, one.partitions, config=one.config)
                for partition in range(one.partitions):
                    produce(cluster, topic, records(name, topic, partition), partition=partition)
            offsets = {
                group: {
                    (topic, partition): STOCK[name][topic].per_partition
                    for topic in read
                    for partition in range(STOCK[name][topic].partitions)
                }
                for group, read in GROUPS[name].items()
            }
            commit_offsets(cluster, offsets)

    def _stage_files(self) -> None:
        directory = self._directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ca.pem").write_text(self._root.pem)
        self._root.write_trusted_jks(directory / "trust.jks", STORE)
        self._root.write_trusted_pkcs12(directory / "trust.p12", STORE)
        self._root.issue("mirror").write_pkcs12(directory / "key.p12", STORE)
        lines = "".join(f"{key} = {value}\n" for key, value in SECRETS.items())
        (directory / "secrets.properties").write_text(lines, encoding="utf-8")
        (directory / "secrets").mkdir(exist_ok=True)
        for key, value in SECRETS.items():
            (directory / "secrets" / key).write_text(value, encoding="utf-8")

    def _listeners(self, broker: Certified) -> dict[str, dict[str, str]]:
        store = {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(broker.write_pkcs12(self._directory / "broker.p12", STORE)),
            "ssl.keystore.password": STORE,
            "ssl.key.password": STORE,
        }
        scram = {"sasl.enabled.mechanisms": "SCRAM-SHA-512", "scram-sha-512.sasl.jaas.config": f"{SCRAM};"}
        return {
            "TLS": {**store, "security.protocol": "SSL"},
            "SCRAM": {**store, **scram, "security.protocol": "SASL_SSL"},
        }


def _delete_topics(cluster: KafkaCluster, names: list[str]) -> None:
    if names:
        for future in cluster.clients.admin().delete_topics(names, operation_timeout=DEADLINE_S).values():
            future.result(DEADLINE_S)
        wait_for(lambda: not set(names) & topics(cluster).keys(), DEADLINE_S, f"{len(names)} topics are gone")


def _delete_groups(cluster: KafkaCluster, names: list[str]) -> None:
    """Delete groups once their members are out."""
    left = set(names)

    def gone() -> bool:
        for name in sorted(left):
            try:
                cluster.clients.admin().delete_consumer_groups([name])[name].result(DEADLINE_S)
            except KafkaException as error:
                if not error.args[0].retriable() and "NON_EMPTY" not in error.args[0].name():
                    raise
            else:
                left.discard(name)
        return not left

    if left:
        wait_for(gone, 60.0, f"the groups {sorted(left)} are gone")
