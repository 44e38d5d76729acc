"""Strimzi's resource: it runs, and does as it is told while it runs; and the three forms of one file copy alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.ports import claim_port
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, path_of
from tests.integration.mirror_process import WITHOUT_PAGES
from tests.integration.records import lively
from tests.integration.running import RunTwinlog
from twinlog.cli.main import app

DEADLINE_S = 180.0


class ResourceRun(ConnectWorker):
    """`twinlog run` of a resource, whose worker answers as any other."""

    def __init__(self, home: Path, text: str) -> None:
        self._headers = {}
        self._port = claim_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.file = home / "mirror.yaml"
        self.file.write_text(text)
        (home / "secrets").mkdir(exist_ok=True)
        options = ["--listen", self.url, "--secrets", str(home / "secrets"), *WITHOUT_PAGES]
        command = [sys.executable, "-m", "twinlog", "run", str(self.file), *options]
        self.process = Child("twinlog run", command, home / "resource.log")

    def change(self, before: str, after: str) -> None:
        """Write another version of the file."""
        text = self.file.read_text()
        assert before in text
        self.file.write_text(text.replace(before, after))

    def wait_for_line(self, words: str) -> None:
        def logged() -> bool:
            self.process.require_alive()
            return words in self.log

        wait_for(logged, DEADLINE_S, f"{words!r} is logged")


@pytest.fixture
def secrets(clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path) -> Path:
    """Files as Kubernetes mounts them: the password of each cluster."""
    for cluster in clusters:
        path = tmp_path / "secrets" / cluster.name / "password"
        path.parent.mkdir(parents=True)
        path.write_text(f"{cluster.users['mirrormaker']}\n")
    return tmp_path / "secrets"


@pytest.fixture
def started(tmp_path: Path, secrets: Path) -> Iterator[Callable[[str], ResourceRun]]:
    """Starts a resource, and ends it."""
    made: list[ResourceRun] = []

    def start(text: str) -> ResourceRun:
        made.append(ResourceRun(tmp_path, text))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.close()


def login(cluster: KafkaCluster) -> str:
    return f"{{type: plain, username: mirrormaker, passwordSecret: {{secretName: {cluster.name}, password: password}}}}"


def resource(source: KafkaCluster, target: KafkaCluster, alias: str, topic: str) -> str:
    return f"""\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mirror
  annotations: {{}}
spec:
  version: 4.0.0
  connectCluster: t
  clusters:
    - alias: {alias}
      bootstrapServers: {source.sasl_bootstrap}
      authentication: {login(source)}
    - alias: t
      bootstrapServers: {target.sasl_bootstrap}
      authentication: {login(target)}
      config:
        group.id: {alias}-mirror
        config.storage.topic: {alias}-configs
        offset.storage.topic: {alias}-offsets
        status.storage.topic: {alias}-status
        config.storage.replication.factor: -1
        offset.storage.replication.factor: -1
        offset.storage.partitions: 3
        status.storage.replication.factor: -1
  mirrors:
    - sourceCluster: {alias}
      targetCluster: t
      sourceConnector:
        tasksMax: 2
        state: running
        listOffsets: {{toConfigMap: {{name: stored}}}}
        alterOffsets: {{fromConfigMap: {{name: stored}}}}
        config:
          replication.factor: -1
          offset-syncs.topic.replication.factor: -1
          refresh.topics.interval.seconds: 1
          heartbeats.replication.enabled: false
      heartbeatConnector:
        config:
          heartbeats.topic.replication.factor: -1
      topicsPattern: "{topic}"
  jvmOptions:
    -Xmx: 256m
"""


def copied(cluster: KafkaCluster, topic: str, count: int) -> None:
    wait_for(
        lambda: topic in topics(cluster) and len(consume(cluster, topic)) == count,
        DEADLINE_S,
        f"{topic} has {count} records",
        every_s=0.5,
    )


def test_a_resource_runs_and_follows_its_file(
    clusters: tuple[KafkaCluster, KafkaCluster],
    started: Callable[[str], ResourceRun],
    topic_name: str,
    new_name: Callable[[str], str],
) -> None:
    source, target = clusters
    alias = new_name("s")
    remote = f"{alias}.{topic_name}"
    copier, beats = f"{alias}->t.MirrorSourceConnector", f"{alias}->t.MirrorHeartbeatConnector"
    create_topic(source, topic_name, 2)
    produce(source, topic_name, numbered(50), partition=1)
    run = started(resource(source, target, alias, topic_name))
    run.wait_for_state(copier, "RUNNING", tasks=2)
    copied(target, remote, 50)
    assert run.log.count("these fields are ignored here") == 1
    assert "spec.version (line 7)" in run.log
    # The worker's topic has the name of the Secret, and nobody sees what it holds.
    config = run.ask("GET", f"{path_of(copier)}/config")[1]
    assert "password" in config["source.cluster.sasl.jaas.config"]
    assert source.users["mirrormaker"] not in config["source.cluster.sasl.jaas.config"] + run.log

    # A version that is wrong changes nothing, not even what is right in it.
    run.change("state: running", "state: halted")
    run.wait_for_line("this version is wrong, the earlier version stays in effect")
    run.change("state: halted", "state: stopped")
    assert run.wait_for_state(copier, "STOPPED")["tasks"] == []
    # Annotations list what is stored, and alter it while the connector is stopped.
    pair = f"strimzi.io/mirrormaker-connector: '{copier}', strimzi.io/connector-offsets"
    run.change("annotations: {}", f"annotations: {{{pair}: list}}")
    run.wait_for_line(f"connector {copier}: its offsets are in ")
    listed = run.file.parent / "secrets" / "stored" / f"{alias}--t.MirrorSourceConnector.json"
    stored = json.loads(listed.read_text())["offsets"]
    assert [one["offset"] for one in stored if one["partition"]["partition"] == 1] == [{"offset": 49}]
    stored = [{**one, "offset": {"offset": 44}} for one in stored if one["partition"]["partition"] == 1]
    listed.write_text(json.dumps({"offsets": stored}))
    run.change(f"{{{pair}: list}}", f"{{{pair}: alter}}")
    run.wait_for_line("The offsets for this connector have been altered successfully")
    run.change(f"{{{pair}: alter}}", "{}")
    produce(source, topic_name, numbered(25, start=50), partition=1)
    run.wait_for_state(beats, "RUNNING", tasks=1)
    run.change("state: stopped", "state: paused")
    run.wait_for_state(copier, "PAUSED")
    assert len(consume(target, remote)) == 50
    run.change("state: paused", "state: running")
    run.wait_for_state(copier, "RUNNING", tasks=2)
    # Five are there again, as the altered position asks for.
    copied(target, remote, 80)

    # Connectors come and go with the file, and annotations restart them.
    run.change("heartbeatConnector", "checkpointConnector")
    run.change("heartbeats.topic", "checkpoints.topic")
    run.wait_for_state(f"{alias}->t.MirrorCheckpointConnector", "RUNNING")
    assert run.ask("GET", path_of(beats))[0] == 404
    run.change("annotations: {}", f"annotations: {{strimzi.io/restart-connector: '{copier}:includeTasks'}}")
    run.wait_for_line(f"connector {copier} is restarted, an annotation asks for it")
    produce(source, topic_name, numbered(25, start=75), partition=0)
    copied(target, remote, 105)
    assert [record.value for record in consume(target, remote) if record.partition == 0] == [
        record.value for record in consume(source, topic_name) if record.partition == 0
    ]
    assert run.process.terminate()
    assert "Traceback" not in run.log


FORMS = ("properties", "connectors", "strimzi")
SEED = """\
# Basic settings
clusters = primary, secondary
primary.bootstrap.servers = {source}
secondary.bootstrap.servers = {target}
# Define replication flows
primary->secondary.enabled = true
primary->secondary.topics = {one}, {two}-.*
# Clusters of one broker, which others use, too
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.replication.enabled = false
emit.heartbeats.enabled = false
secondary.config.storage.replication.factor = 1
secondary.offset.storage.replication.factor = 1
secondary.offset.storage.partitions = 3
secondary.status.storage.replication.factor = 1
"""


def converted(file: Path, to: str) -> list[Path]:
    """What `twinlog convert` makes of a file, where everything is converted."""
    output = file.parent / to
    result = CliRunner().invoke(app, ["convert", str(file), "-o", to, "--output-dir", str(output)])
    assert result.exit_code == 0, result.stderr
    return sorted(path for path in output.rglob("*") if path.is_file())


def dumped(cluster: KafkaCluster, topic: str) -> list[tuple[object, ...]]:
    """Everything in a topic that a consumer sees, with its place."""
    return [(one.partition, one.offset, *one.content) for one in consume(cluster, topic)]


def synced(cluster: KafkaCluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of offset syncs: which partition, and where it stood on both sides."""
    return [(one.key, one.value) for one in consume(cluster, topic)] if topic in topics(cluster) else []


@pytest.mark.scenario
def test_three_forms_of_one_file_copy_alike(
    clusters: tuple[KafkaCluster, KafkaCluster],
    run_twinlog: RunTwinlog,
    tmp_path: Path,
    new_name: Callable[[str], str],
) -> None:
    """The first example of Kafka's guide to geo-replication, as it stands there but for names."""
    source, target = clusters
    one, two = new_name("foobar"), new_name("quux")
    names = (one, f"{two}-1")
    for name in names:
        create_topic(source, name, 2)
        for partition in range(2):
            produce(source, name, lively(150), partition=partition)
    aliases = {form: (new_name(form[0]), new_name(f"t{form[0]}")) for form in FORMS}
    text = SEED.format(source=source.bootstrap, target=target.bootstrap, one=one, two=two)

    def file(form: str) -> Path:
        """The file with aliases of its own, so that the copies stand side by side on one cluster."""
        here, there = aliases[form]
        path = tmp_path / form / "mm2.properties"
        path.parent.mkdir()
        path.write_text(text.replace("primary", here).replace("secondary", there))
        return path

    def copies(form: str) -> dict[str, list[tuple[object, ...]]]:
        here, there = aliases[form]
        remotes = {name: f"{here}.{name}" for name in names}
        present = topics(target)
        found = {name: dumped(target, remote) if remote in present else [] for name, remote in remotes.items()}
        syncs: dict[str, list[tuple[object, ...]]] = {}
        for key, value in synced(source, f"mm2-offset-syncs.{there}.internal"):
            syncs.setdefault(f"syncs of {key!r}", []).append((value,))
        return found | syncs

    _, named, *rest = file("properties").read_text().splitlines(keepends=True)
    run = run_twinlog(named.partition("=")[2].strip(), "".join(rest), "--until", "caught-up")
    assert run.wait(DEADLINE_S) == 0
    expected = copies("properties")
    assert sum(len(records) for name, records in expected.items() if name in names) == 600
    assert len(expected) == 6

    made = converted(file("connectors"), "connectors")
    worker_file = next(path for path in made if path.name == "worker.properties")
    port = claim_port()
    worker_file.write_text(worker_file.read_text().replace("127.0.0.1:8083", f"127.0.0.1:{port}"))
    worker = ConvertedWorker(worker_file, port)
    try:
        worker.start()
        for path in made:
            if path.suffix == ".json":
                assert worker.ask("POST", "/connectors", json.loads(path.read_text()))[0] == 201
        wait_for(lambda: copies("connectors") == expected, DEADLINE_S, "the connectors copied the same", every_s=1.0)
    finally:
        worker.close()

    (resource,) = converted(file("strimzi"), "strimzi")
    mirror = ResourceRun(tmp_path, resource.read_text())
    try:
        mirror.start()
        wait_for(lambda: copies("strimzi") == expected, DEADLINE_S, "the resource copied the same", every_s=1.0)
    finally:
        mirror.close()


class ConvertedWorker(ConnectWorker):
    """`twinlog connect` with a file that was made elsewhere."""

    def __init__(self, file: Path, port: int) -> None:
        self._headers = {}
        self._port = port
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "twinlog", "connect", str(file), *WITHOUT_PAGES]
        self.process = Child("twinlog connect", command, file.parent / "worker.log")
