"""Pods of Strimzi's operator with twinlog's image: its files, variables and requests meet real workers and brokers.

The operator's side is `harness.strimzi`, written after Strimzi's public sources; there is no Kubernetes here.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.strimzi.operator import Desired, Operator
from harness.strimzi.pod import RACK, PodContainer
from harness.strimzi.release import (
    RELEASES,
    Certificate,
    Cluster,
    Login,
    Release,
    Resource,
    connector_configs,
)
from harness.strimzi.secrets import SecretServer
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.encrypted_site import Site, encrypted_site

DEADLINE_S = 240.0
SOURCE, CHECKPOINT = "MirrorSourceConnector", "MirrorCheckpointConnector"
OURS = Path(sys.executable).parent / "connect-distributed.sh"
QUICK = {"refresh.topics.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
CONNECTORS: Mapping[str, Mapping[str, str]] = {
    SOURCE: {
        "replication.factor": "-1",
        "offset-syncs.topic.replication.factor": "-1",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
        **QUICK,
    },
    CHECKPOINT: {
        "checkpoints.topic.replication.factor": "-1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        **QUICK,
    },
}
STORAGE = {
    **{f"{kind}.storage.replication.factor": "-1" for kind in ("config", "offset", "status")},
    "offset.storage.partitions": "3",
}


@dataclass
class PodWorker:
    """A pod of the operator on a port of its own, and the operator beside it."""

    pod: PodContainer
    operator: Operator
    port: int

    def start(self) -> PodWorker:
        """Start the container, and wait until the operator's readiness probe succeeds."""
        self.pod.process.start()
        return self.wait_until_ready()

    def wait_until_ready(self) -> PodWorker:
        wait_for(lambda: self.health() == 200, DEADLINE_S, f"{self.pod.process.name} is ready")
        return self

    def health(self) -> int:
        """The status of the probe; 0 without an answer."""
        self.pod.process.require_alive()
        try:
            return self.operator.ask("GET", "/health")[0]
        except (OSError, ValueError):
            # Jetty itself answers before a worker of Kafka's does.
            return 0

    def wait_for_state(self, name: str, state: str, tasks: int | None = None) -> Any:
        """Wait until a connector and `tasks` tasks are in a state, and return its status."""
        last: list[Any] = []

        def reached() -> bool:
            self.pod.process.require_alive()
            code, answer = self.operator.ask("GET", f"/connectors/{name}/status")
            last[:] = [code, answer]
            return (
                code == 200
                and answer["connector"]["state"] == state
                and (tasks is None or [task["state"] for task in answer["tasks"]] == [state] * tasks)
            )

        try:
            wait_for(reached, DEADLINE_S, f"{name} is {state}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {last}\n{self.pod.log[-4000:]}") from error
        return last[1]

    def close(self) -> None:
        self.pod.process.kill()
        release_port(self.port)


@dataclass
class Pods:
    """Starts containers, and ends them with the test."""

    folder: Path
    made: list[PodWorker] = field(default_factory=list)

    def make(
        self,
        release: Release,
        resource: Resource,
        secrets: Mapping[str, Mapping[str, str]],
        *,
        api_server: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> PodWorker:
        """A container of the operator with twinlog's worker."""
        root = self.folder / f"pod-{len(self.made)}"
        root.mkdir()
        port = claim_port()
        lines = {"rest.advertised.host.name": "127.0.0.1", **(more or {})}
        pod = PodContainer(root, release, resource, secrets, OURS, port=port, api_server=api_server, more=lines)
        self.made.append(PodWorker(pod, Operator(release, f"http://127.0.0.1:{port}"), port))
        return self.made[-1]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    found = Pods(tmp_path)
    yield found
    for one in found.made:
        one.close()


def desired(release: Release, resource: Resource, pod: PodContainer) -> dict[str, Desired]:
    """The connectors of the resource, as the operator wants them."""
    configs = connector_configs(release, resource)
    return {name: Desired({key: pod.here(value) for key, value in one.items()}) for name, one in configs.items()}


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
    [("0.51", "jmx", "topology"), ("1.2", "jmx", "topology")],
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
        assert scraped(scrape, "kafka_connect_worker_connector_count")
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
