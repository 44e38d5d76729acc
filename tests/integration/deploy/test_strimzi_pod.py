"""Pods of Strimzi's operator with twinlog's image: its files, variables and requests meet real workers and brokers.

The operator's side is `harness.containers.strimzi`, written after Strimzi's public sources, without Kubernetes.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.containers.strimzi.pod import RACK
from harness.containers.strimzi.release import (
    RELEASES,
    Certificate,
    Cluster,
    Login,
    Resource,
)
from harness.containers.strimzi.secrets import SecretServer
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.clusters.encrypted_site import Site, encrypted_site
from tests.integration.deploy.strimzi_pods import CHECKPOINT, CONNECTORS, DEADLINE_S, SOURCE, STORAGE, Pods, desired

# Files, variables and Secrets of each release.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with encrypted_site(tmp_path_factory.mktemp("site")) as found:
        yield found


def encrypted_resource(site: Site, name: str, metrics: Any, rack: str) -> tuple[Resource, dict[str, dict[str, str]]]:
    """A resource whose target wants a password, and whose source wants a certificate, and its Secrets."""
    user = site.root.issue("mirror")
    resource = Resource(
        name,
        Cluster("west", site.cluster.listener("SCRAM"), "ca", Login("scram-sha-512", "mirror", "login"), STORAGE),
        Cluster("east", site.cluster.listener("MTLS"), "ca", Certificate("user")),
        f"{name}-group",
        CONNECTORS,
        topics=f"{name}-topic",
        tasks_max=2,
        metrics=metrics,
        rack=rack,
    )
    secrets = {
        "ca": {"ca.crt": site.root.pem},
        "login": {"password": "mirror-secret"},
        "user": {"user.crt": user.chain_pem, "user.key": user.key_pem()},
        resource.trusted_secret: dict.fromkeys(("ca.crt", "west-ca.crt", "east-ca.crt"), site.root.pem),
    }
    return resource, secrets


@pytest.mark.parametrize(
    ("release", "metrics", "rack"),
    [
        pytest.param("0.51", "jmx", "topology", marks=pytest.mark.scenario),
        pytest.param("1.0", "reporter", "NODE_RACK", marks=pytest.mark.scenario),
        ("1.2", "jmx", "topology"),
    ],
)
def test_a_pod_of_each_release_copies(
    release: str, metrics: str, rack: str, site: Site, pods: Pods, new_name: Callable[[str], str]
) -> None:
    operator_of = RELEASES[release]
    resource, secrets = encrypted_resource(site, new_name("m").lower(), metrics, rack)
    resource = replace(
        resource, loggers={"logger.m.name": "org.apache.kafka.connect.mirror", "logger.m.level": "DEBUG"}
    )
    topic = create_topic(site.cluster, resource.topics, 2)
    for partition in (0, 1):
        produce(site.cluster, topic, numbered(50), partition=partition)
    scrape = claim_port()
    with SecretServer(pods.folder / "kubernetes", secrets) as api:
        own = {"prometheus.metrics.reporter.listener": f"http://127.0.0.1:{scrape}"}
        worker = pods.make(operator_of, resource, secrets, api_server=api.environment, more=own).start()
        wanted = desired(operator_of, resource, worker.pod)
        worker.operator.reconcile(wanted)
        source = worker.wait_for_state(f"east->west.{SOURCE}", "RUNNING", 2)
        worker.wait_for_state(f"east->west.{CHECKPOINT}", "RUNNING")
        assert source["connector"]["worker_id"] == f"127.0.0.1:{worker.port}"
        for partition in (0, 1):
            there = partial(has_records, site.cluster, f"east.{topic}", partition, 50)
            wait_for(there, DEADLINE_S, f"partition {partition} is copied", every_s=0.5)
        # The configuration is the operator's own, so nothing is written again.
        before = len(worker.operator.log)
        worker.operator.reconcile(wanted)
        assert {one.method for one in worker.operator.log[before:]} == {"GET"}
        # A task reports its sums once a second.
        counted = partial(scraped, scrape, "kafka_connect_mirror_mirrorsourceconnector_record_count")
        wait_for(lambda: sum(counted().values()) == 100, 10, "the records are counted")
        kind = "connect_worker_metrics" if metrics == "reporter" else "worker"
        assert scraped(scrape, f"kafka_connect_{kind}_connector_count") == {"": 2}
        loggers = worker.operator.expect("GET", "/admin/loggers/", 200)
        assert loggers["org.apache.kafka.connect.mirror"]["level"] == "DEBUG"
        tasks = worker.operator.expect("GET", f"/connectors/east->west.{SOURCE}/config", 200)
        assert tasks["consumer.client.rack"].startswith("${strimzifile:")
        assert f"consumer.client.rack={RACK}" in (worker.pod.tmp / "strimzi-connect.properties").read_text()
        assert worker.pod.process.terminate(60)
    release_port(scrape)
    log = worker.pod.log
    assert "mirror-secret" not in log
    assert "Traceback" not in log
    assert "upgrade request" not in log


def has_records(cluster: KafkaCluster, topic: str, partition: int, count: int) -> bool:
    return topic in topics(cluster) and len(consume(cluster, topic, partitions=[partition])) == count


def scraped(port: int, name: str) -> dict[str, float]:
    """The samples of a metric at the port of Strimzi's exporter, by their labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(rf"^{name}(\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}
