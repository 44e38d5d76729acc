"""`twinlog canary` of Strimzi's resource: a resource with names of its own, and the positions that its report finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from harness.certificates import authority
from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from twinlog.cli.main import app
from twinlog.console.flow_files import read_flow_file
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import TopicName
from twinlog.ops.canary.reading import ComparedFlows
from twinlog.ops.status.flow import FlowReader
from twinlog.settings.client import ClientSettings

V1 = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata:
  name: mirror
  namespace: kafka
  uid: 1234
  annotations: {strimzi.io/restart-connector: x}
spec:
  replicas: 2
  target:
    alias: w
    bootstrapServers: w-1:9092
    groupId: mirror
    configStorageTopic: mirror-configs
    offsetStorageTopic: mirror-offsets
    statusStorageTopic: mirror-status
  mirrors:
    - source:
        alias: e
        bootstrapServers: e-1:9092
      topicsPattern: orders.*
      groupsPattern: .*
      sourceConnector:
        tasksMax: 4
        state: paused
        config: {sync.topic.acls.enabled: "true", offsets.storage.topic: own, refresh.topics.interval.seconds: 60}
      checkpointConnector:
        config: {sync.group.offsets.enabled: "true"}
status: {observedGeneration: 1}
"""
V1BETA2 = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  replicas: 1
  connectCluster: w
  clusters:
    - alias: e
      bootstrapServers: e-1:9092
    - alias: n
      bootstrapServers: n-1:9092
    - alias: w
      bootstrapServers: w-1:9092
  mirrors:
    - sourceCluster: n
      targetCluster: w
      topicsPattern: stock
      sourceConnector: {}
    - sourceCluster: e
      targetCluster: w
      topicsPattern: orders.*
      sourceConnector: {}
      checkpointConnector: {}
      heartbeatConnector: {}
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def written(folder: Path, text: str, *words: object) -> tuple[Path, dict[str, Any]]:
    """The canary's resource, which `twinlog check` accepts."""
    file, path = folder / "mirror.yaml", folder / "out" / "canary.yaml"
    file.write_text(text)
    made = run("canary", file, *words, "-o", folder / "out")
    assert made.exit_code == 0, made.output
    checked = run("check", path, *words[words.index("--secrets") :] if "--secrets" in words else ())
    assert checked.exit_code == 0, checked.output
    assert f"twinlog canary report {file} {path}" in made.output
    return path, YAML(typ="safe").load(path.read_text())


@pytest.mark.parametrize("text", [V1, V1BETA2])
def test_a_canary_of_a_resource_shares_no_name_with_it(tmp_path: Path, text: str) -> None:
    path, made = written(tmp_path, text, "--topic", "orders.eu", "--flow", "e:w")
    assert made["metadata"]["name"] == "mirror-e-canary"
    assert "status" not in made
    base, canary = read_flow_file(tmp_path / "mirror.yaml"), read_flow_file(path)
    assert base.worker is not None
    assert canary.worker is not None
    old, new = base.worker.group, canary.worker.group
    assert old is not None
    assert new is not None
    assert (new.group_id, new.offset_storage.name) == ("mirror-e-canary", "mirror-e-canary-offsets")
    topics = [{one.config_storage.name, one.offset_storage.name, one.status_storage.name} for one in (old, new)]
    assert len(topics[1]) == 3
    assert not topics[0] & topics[1]
    (flow,) = canary.flows
    assert (flow.name, flow.kind) == ("e-canary->w.MirrorSourceConnector", "source")
    assert flow.positions_topic == "mirror-e-canary-offsets"
    topology = topology_of(flow)
    assert topology.copy_of(TopicName("orders.eu")) == "e-canary.orders.eu"
    assert not topology.mirrors(TopicName("orders-eu"))
    assert flow.sync_topic_acls_interval_s is None
    assert flow.offset_syncs_location == "target"
    assert not flow.heartbeats_replication_enabled


def test_settings_stay_and_the_state_of_the_resource_is_left_out(tmp_path: Path) -> None:
    path, made = written(tmp_path, V1, "--topic", "orders", "--alias", "kanari", "--start", "latest")
    assert made["metadata"] == {"name": "mirror-kanari", "namespace": "kafka"}
    (mirror,) = made["spec"]["mirrors"]
    assert mirror["sourceConnector"]["tasksMax"] == 4
    assert "state" not in mirror["sourceConnector"]
    assert mirror["sourceConnector"]["config"]["refresh.topics.interval.seconds"] == 60
    (flow,) = read_flow_file(path).flows
    assert str(flow.start_of("orders")) == "latest"
    refused = run("canary", tmp_path / "mirror.yaml", "--topic", "orders", "--alias", "w", "-o", tmp_path / "other")
    assert (refused.exit_code, "the alias w is taken" in refused.output) == (2, True)


def test_references_to_secrets_stay_references(tmp_path: Path) -> None:
    (tmp_path / "secrets/ca").mkdir(parents=True)
    (tmp_path / "secrets/ca/ca.crt").write_text(authority().pem)
    trusted = "        tls: {trustedCertificates: [{secretName: ca, pattern: '*.crt'}]}\n"
    text = V1.replace("        bootstrapServers: e-1:9092\n", f"        bootstrapServers: e-1:9092\n{trusted}")
    path, made = written(tmp_path, text, "--topic", "orders", "--secrets", tmp_path / "secrets")
    source = made["spec"]["mirrors"][0]["source"]
    assert source["tls"] == {"trustedCertificates": [{"secretName": "ca", "pattern": "*.crt"}]}
    assert not list((tmp_path / "out").glob("secrets*"))
    assert path.stat().st_mode & 0o077 == 0


class _CapturedError(Exception):
    pass


def compared(base: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> ComparedFlows:
    """What `twinlog canary report` compares."""
    taken: list[ComparedFlows] = []

    def take(flows: ComparedFlows, *_: Any, **__: Any) -> None:
        taken.append(flows)
        raise _CapturedError

    with monkeypatch.context() as patched:
        patched.setattr("twinlog.ops.canary.reading.CanaryReader", take)
        done = run("canary", "report", base, canary, "--observe", "0")
    assert isinstance(done.exception, _CapturedError), done.output
    return taken[0]


STORED = {
    "own": "e->w.MirrorSourceConnector e",
    "mirror-e-canary-offsets": "e-canary->w.MirrorSourceConnector e-canary",
    "mm2-offsets.e-canary.internal": "MirrorSourceConnector e-canary",
}
"""Topics of positions, with the connector and the alias in their keys."""


@pytest.mark.parametrize("form", ["strimzi", "properties"])
def test_the_report_finds_the_positions_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """The connector has another name in a resource than in a properties file, and its positions are elsewhere."""
    path, _ = written(tmp_path, V1, "--topic", "orders")
    if form == "properties":
        made = run("convert", path, "-o", "properties", "--output-dir", tmp_path / "host")
        assert made.exit_code in (0, 1), made.output
        path = tmp_path / "host/mm2.properties"
        path.write_text(path.read_text().replace("w.offset.storage.topic", "#"))
    flows = compared(tmp_path / "mirror.yaml", path, monkeypatch)
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "e"), VirtualCluster(loop, "w")
        source.create("orders")[0].write(*(b"%d" % one for one in range(10)))
        for number, (topic, stored) in enumerate(STORED.items()):
            name, alias = stored.split()
            key = json.dumps([name, {"cluster": alias, "partition": 0, "topic": "orders"}], separators=(",", ":"))
            batch = encode_batch([(0, record_body(key.encode(), b'{"offset":%d}' % (8 - number)))])
            stamp(batch, -1, -1, -1)
            target.create(topic)[0].append(bytes(batch))

        def lag(flow: Any, worker: Any) -> int | None:
            def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
                return ClusterAdmin(alias, client, VirtualLoop(loop.world))

            with FlowReader(flow, worker, connect=connect) as reader:
                seen = reader.read()
                assert seen.lag_trouble is None, (seen.lag_trouble, seen.state)
                return seen.lag

        assert lag(flows.base, flows.worker) == 1
        assert lag(flows.canary, flows.canary_worker) == (2 if form == "strimzi" else 3)
    assert (flows.canary_worker is not None) == (form == "strimzi")
