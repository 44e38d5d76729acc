"""Clusters of the releases of Kafka that twinlog is tried with, beside the release of the other tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.cluster import KafkaCluster
from harness.jars import Parts
from harness.zookeeper import ZooKeeperCluster

RELEASES = ("2.1.1", "2.8.2", "3.3.2", "3.9.2", "4.0.2", "4.2.1", "4.4.0")
"""The oldest and the newest release, and those after which the brokers' protocols changed most."""


class OtherKafkaCluster(KafkaCluster):
    """A cluster of another release with KRaft, from 3.3 on."""

    parts: ClassVar[Parts] = "broker"


def make_cluster(release: str, name: str, config: Mapping[str, str]) -> KafkaCluster:
    """A cluster of one broker; releases before 3.0 have a ZooKeeper."""
    if release.startswith("2."):
        return ZooKeeperCluster(name, config=config, version=release)
    return OtherKafkaCluster(name, sasl=False, config=config, version=release)
