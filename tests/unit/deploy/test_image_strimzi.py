"""The image's script in a pod of Strimzi's operator: a stand-in for the worker shows what the worker would get."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import javaproperties
import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from harness.certificates import authority
from harness.containers.strimzi.pod import RACK, PodContainer
from harness.containers.strimzi.release import (
    RELEASES,
    Certificate,
    Cluster,
    Login,
    Release,
    Resource,
    connector_configs,
)
from harness.containers.strimzi.secrets import SecretServer
from twinlog.config.connector import ConnectorFlow, build_connector
from twinlog.config.worker import WorkerConfig, load_worker
from twinlog.errors.mistakes import MistakeKind
from twinlog.settings.client import ClientSettings

ROOT = Path(__file__).parents[3]
NO_TLS = Resource(
    "mm2",
    Cluster("west", "127.0.0.1:9092", config={"offset.storage.replication.factor": "-1"}),
    Cluster("east", "127.0.0.1:9093"),
    "mm2-group",
    {"MirrorSourceConnector": {"replication.factor": "-1"}, "MirrorCheckpointConnector": {}},
)
TLS = replace(
    NO_TLS,
    target=Cluster("west", "127.0.0.1:9092", "west-ca", Login("scram-sha-512", "mirror", "west-login")),
    source=Cluster("east", "127.0.0.1:9093", "east-ca", Certificate("east-user")),
)
STAND_IN = f"""#!{sys.executable}
import json, os, sys
json.dump({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}, open(os.environ["SHOWN"], "w"))
"""


@dataclass(frozen=True)
class Started:
    """What the worker of a pod gets: its arguments, its variables and its file."""

    pod: PodContainer
    arguments: list[str]
    environment: dict[str, str]

    @property
    def properties(self) -> dict[str, str]:
        (path,) = self.arguments
        return dict(javaproperties.loads(Path(path).read_text("utf-8")))


@pytest.fixture(scope="module")
def secrets() -> dict[str, dict[str, str]]:
    west, east = authority("West"), authority("East")
    user = east.issue("mirror")
    return {
        "west-ca": {"ca.crt": west.pem, "ca-next.crt": authority("West next").pem, "notes": "no certificate"},
        "east-ca": {"ca.crt": east.pem},
        "east-user": {"user.crt": user.chain_pem, "user.key": user.key_pem()},
        "west-login": {"password": "hush"},
        "mm2-connect-tls-trusted-certs": {"ca.crt": west.pem, "west-ca.crt": west.pem, "east-ca.crt": east.pem},
    }


@pytest.fixture
def api_server(tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]) -> Iterator[SecretServer]:
    with SecretServer(tmp_path / "kubernetes", secrets) as found:
        yield found


def pod_of(
    root: Path, release: Release, resource: Resource, secrets: Mapping[str, Mapping[str, str]], **more: Any
) -> PodContainer:
    stand_in = root / "stand-in"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    return PodContainer(root, release, resource, secrets, stand_in, **more)


def start(pod: PodContainer) -> Started:
    shown = pod.root / "shown.json"
    pod.environment["SHOWN"] = str(shown)
    command = [pod.process.command[-1]]
    done = subprocess.run(command, env=pod.environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    pod.process.log.write_text(done.stdout)
    return Started(pod, **json.loads(shown.read_text()))


def worker_of(started: Started, api: SecretServer, monkeypatch: pytest.MonkeyPatch) -> WorkerConfig:
    for name, value in (started.environment | api.environment).items():
        monkeypatch.setenv(name, value)
    return load_worker(started.arguments[0], distributed=True)


def flows_of(started: Started, release: Release, resource: Resource, worker: WorkerConfig) -> dict[str, ConnectorFlow]:
    return {
        name: build_connector(name, {key: started.pod.here(value) for key, value in config.items()}, worker)
        for name, config in connector_configs(release, resource).items()
    }


def authorities_of(client: ClientSettings) -> str:
    """The certificates that a client trusts."""
    assert client.tls is not None
    return client.tls.authorities or ""


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_the_worker_starts_with_the_operators_settings(
    release: Release,
    tmp_path: Path,
    secrets: Mapping[str, Mapping[str, str]],
    api_server: SecretServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = start(pod_of(tmp_path, release, NO_TLS, secrets))
    assert started.arguments == [f"{tmp_path}/tmp/strimzi-connect.properties"]
    worker = worker_of(started, api_server, monkeypatch)
    assert worker.settings.group is not None
    assert worker.settings.group.group_id == "mm2-group"
    assert worker.settings.rest.advertised_host == started.environment["ADVERTISED_HOSTNAME"]
    assert [listener.port for listener in worker.settings.rest.listeners] == [8083]
    assert worker.settings.metrics.listeners == ()
    assert worker.settings.healthy_before_group
    assert not [warning for warning in worker.warnings if warning.kind is MistakeKind.UNKNOWN_KEY]
    assert {flow.kind for flow in flows_of(started, release, NO_TLS, worker).values()} == {"source", "checkpoint"}


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_stores_and_passwords_reach_every_client(
    release: Release,
    tmp_path: Path,
    secrets: Mapping[str, Mapping[str, str]],
    api_server: SecretServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = start(pod_of(tmp_path, release, TLS, secrets))
    worker = worker_of(started, api_server, monkeypatch)
    west, east = secrets["west-ca"]["ca.crt"].strip(), secrets["east-ca"]["ca.crt"].strip()
    assert worker.settings.client.sasl_password == "hush"
    assert west in authorities_of(worker.settings.client)
    flow = flows_of(started, release, TLS, worker)["east->west.MirrorSourceConnector"].settings
    source, target = flow.consumer.client, flow.producer.client
    assert (source.security_protocol, target.security_protocol) == ("SSL", "SASL_SSL")
    assert east in authorities_of(source)
    assert west in authorities_of(target)
    assert source.tls is not None
    assert source.tls.private_key
    assert target.sasl_password == "hush"
    assert "hush" not in started.pod.log


def test_stores_of_several_certificates_open_with_the_password_of_the_environment(
    tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    started = start(pod_of(tmp_path, RELEASES["0.51"], TLS, secrets))
    password = started.environment["MIRRORMAKER_2_CERTS_STORE_PASSWORD"].encode()
    stores = tmp_path / "tmp/kafka/clusters"
    trusted = pkcs12.load_pkcs12((stores / "west.truststore.p12").read_bytes(), password)
    assert len(trusted.additional_certs) == 2
    shown = pkcs12.load_pkcs12((stores / "east.keystore.p12").read_bytes(), password)
    assert shown.key is not None
    assert shown.cert is not None
    assert sorted(path.name for path in stores.iterdir()) == [
        "east.keystore.p12",
        "east.truststore.p12",
        "west.truststore.p12",
    ]
    assert {path.stat().st_mode & 0o777 for path in stores.iterdir()} == {0o600}
    again = start(pod_of(tmp_path, RELEASES["0.51"], TLS, secrets))
    assert again.environment["MIRRORMAKER_2_CERTS_STORE_PASSWORD"].encode() != password


def test_what_an_earlier_container_left_in_tmp_is_gone(
    tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    pod = pod_of(tmp_path, RELEASES["1.2"], NO_TLS, secrets)
    (pod.tmp / "old/below").mkdir(parents=True)
    (pod.tmp / "old.file").write_text("old")
    start(pod)
    assert sorted(path.name for path in pod.tmp.iterdir()) == ["kafka", "strimzi-connect.properties"]


@pytest.mark.parametrize("rack", ["topology", "NODE_RACK"])
def test_the_rack_reaches_the_consumer(
    rack: str,
    tmp_path: Path,
    secrets: Mapping[str, Mapping[str, str]],
    api_server: SecretServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release, resource = RELEASES["1.2"], replace(NO_TLS, rack=rack)
    started = start(pod_of(tmp_path, release, resource, secrets))
    worker = worker_of(started, api_server, monkeypatch)
    assert not [warning for warning in worker.warnings if warning.kind is MistakeKind.WRITTEN_TWICE]
    flow = flows_of(started, release, resource, worker)["east->west.MirrorSourceConnector"]
    assert flow.settings.consumer.client_rack == RACK


def test_a_missing_rack_is_named(tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
    pod = pod_of(tmp_path, RELEASES["1.2"], replace(NO_TLS, rack="topology"), secrets)
    (pod.kafka / "init/rack.id").unlink()
    started = start(pod)
    assert started.properties["consumer.client.rack"] == ""
    assert "WARNING consumer.client.rack is empty" in started.pod.log


@pytest.mark.parametrize("metrics", ["jmx", "reporter"])
@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_metrics_are_at_the_port_of_strimzis_exporter(
    metrics: Any, release: Release, tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    started = start(pod_of(tmp_path, release, replace(NO_TLS, metrics=metrics), secrets))
    assert started.properties["twinlog.metrics.listeners"] == "http://:9404"
    assert not [key for key in started.properties if "prometheus.metrics.reporter" in key]
    assert started.properties.get("twinlog.metrics.names") == ("reporter" if metrics == "reporter" else None)
    assert "the metrics are at http://:9404, under the names of" in started.pod.log
    assert ("metrics-config.json: ignored" in started.pod.log) is (metrics == "jmx")


def test_an_address_in_the_resource_precedes_the_port_of_strimzi(
    tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    own = {"twinlog.metrics.listeners": "http://:9000"}
    started = start(pod_of(tmp_path, RELEASES["1.2"], replace(NO_TLS, metrics="jmx"), secrets, more=own))
    assert started.properties["twinlog.metrics.listeners"] == "http://:9000"


def test_options_for_java_are_named_and_levels_are_handed_on(
    tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    jvm = {"KAFKA_HEAP_OPTS": "-Xmx2g", "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "75", "STRIMZI_JMX_ENABLED": "false"}
    started = start(pod_of(tmp_path, RELEASES["1.2"], replace(NO_TLS, traced=True, jvm=jvm), secrets))
    ignored = re.findall(r"strimzi pod: (\w+) is ignored", started.pod.log)
    assert ignored == ["STRIMZI_DYNAMIC_HEAP_PERCENTAGE", "STRIMZI_TRACING"]
    levels = f"{tmp_path}/opt/kafka/custom-config/log4j2.properties"
    assert started.environment["KAFKA_LOG4J_OPTS"] == f"-Dlog4j2.configurationFile={levels}"
    assert started.environment["TMPDIR"] == f"{tmp_path}/var/tmp"
    assert started.environment["HOME"] == f"{tmp_path}/var/tmp"


def test_no_secret_of_the_file_is_printed(tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]) -> None:
    own = {
        "ssl.truststore.password": "hush-1",
        "consumer.ssl.keystore.key": "hush-2",
        "producer.sasl.jaas.config": "hush-3",
        "client.id": "shown",
    }
    started = start(pod_of(tmp_path, RELEASES["1.2"], NO_TLS, secrets, more=own))
    assert "client.id=shown" in started.pod.log
    assert "ssl.truststore.password=[hidden]" in started.pod.log
    assert "hush" not in started.pod.log
    assert started.properties["consumer.ssl.keystore.key"] == "hush-2"


def test_a_missing_file_of_the_operator_ends_the_pod_with_a_line(
    tmp_path: Path, secrets: Mapping[str, Mapping[str, str]]
) -> None:
    pod = pod_of(tmp_path, RELEASES["1.2"], NO_TLS, secrets)
    (pod.kafka / "custom-config/kafka-connect.properties").unlink()
    done = subprocess.run(
        [pod.process.command[-1]], env=pod.environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "Strimzi's cluster operator mounts it" in done.stderr


def test_the_image_has_the_script_under_each_name_that_the_operator_starts() -> None:
    text = (ROOT / "Containerfile").read_text("utf-8")
    (linked,) = re.findall(r"for name in ([\w. ]+); do \\\n\s+ln -s /opt/twinlog/bin/strimzi-pod \"/opt/kafka/", text)
    assert set(linked.split()) == {release.script for release in RELEASES.values()}
    assert "COPY scripts/image_strimzi.py /opt/twinlog/bin/strimzi-pod" in text
