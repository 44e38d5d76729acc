"""`twinlog canary`: the file that it writes beside MirrorMaker 2's, and the files that it refuses to write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from twinlog.cli.main import app
from twinlog.config import load
from twinlog.mirror.topics.internal_topics import internal_topics
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="m" password="${env:WORD}";'
PROPERTIES = f"""\
clusters = east, west
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
east.bootstrap.servers = east:9092
west.bootstrap.servers = west:9092
west.security.protocol = SASL_PLAINTEXT
west.sasl.mechanism = PLAIN
west.sasl.jaas.config = {JAAS}
west.group.id = mirror
west.offset.storage.topic = my-offsets
east->west.enabled = true
east->west.topics = orders.*, pay.ments
east->west.groups = shop.*
east->west.sync.group.offsets.enabled = true
sync.topic.acls.enabled = true
twinlog.metrics.listeners = http://127.0.0.1:9404
tasks.max = 4
"""


@pytest.fixture(autouse=True)
def word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "geheim")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["canary", *map(str, words)])


def written(folder: Path, text: str, *words: object) -> tuple[Result, str, FlowSettings]:
    """The result of the command, the text of the file, and its flow."""
    file = folder / "mm2.properties"
    file.write_text(text)
    result = run(file, *words, "-o", folder / "out")
    assert result.exit_code == 0, result.output
    path = folder / "out" / "canary.properties"
    (flow,) = load(path).flows
    return result, path.read_text(), flow


def refusal(folder: Path, text: str, *words: object) -> str:
    """The text of a refusal, after which DIR is as before."""
    file = folder / "mm2.properties"
    file.write_text(text)
    result = run(file, *words, "-o", folder / "out")
    assert result.exit_code == 2, result.output
    assert not (folder / "out").exists()
    return result.output


def own_topics(flow: FlowSettings) -> set[tuple[str, str]]:
    """Cluster and name of each topic that a flow keeps for itself."""
    return {(topic.cluster, topic.name) for topic in internal_topics(flow)}


def test_a_canary_shares_no_name_with_mirror_maker_2(tmp_path: Path) -> None:
    _, _, flow = written(tmp_path, PROPERTIES, "--topic", "orders", "--topic", "orders.eu")
    (base,) = (one for one in load(tmp_path / "mm2.properties").flows if one.enabled)
    assert (flow.name, flow.group_id) == ("east-canary->west", "east-canary-mm2")
    assert flow.positions_topic == "mm2-offsets.east-canary.internal"
    assert flow.transactional_id(0) != base.transactional_id(0)
    assert not {name for _, name in own_topics(flow)} & {name for _, name in own_topics(base)}
    # Everything of the canary is on the target: MirrorMaker 2 reads offset syncs on the source.
    assert {cluster for cluster, _ in own_topics(flow)} == {"west"}
    assert topology_of(flow).copy_of(TopicName("orders")) == "east-canary.orders"


def test_a_canary_copies_the_chosen_topics_alone_and_touches_no_group_and_no_right(tmp_path: Path) -> None:
    _, _, flow = written(tmp_path, PROPERTIES, "--topic", "orders.eu", "--topic", "orders")
    topology = topology_of(flow)
    assert [
        name for name in ("orders", "orders.eu", "orders-eu", "heartbeats", "x.heartbeats") if topology.mirrors(name)
    ] == [  # type: ignore[arg-type]
        "orders",
        "orders.eu",
    ]
    assert flow.sync_group_offsets_interval_s is flow.sync_topic_acls_interval_s is None
    assert flow.emit_heartbeats_interval_s is None
    assert not flow.heartbeats_replication_enabled
    # The rest is as in the file.
    assert (flow.groups, flow.tasks_max) == (("shop.*",), 4)


def test_keys_that_are_ignored_are_left_out(tmp_path: Path) -> None:
    ignored = "config.storage.replication.factor = 1\nwest.status.storage.replication.factor = 1\nproducer.acks = all\n"
    _, text, _ = written(tmp_path, PROPERTIES + ignored, "--topic", "orders")
    assert "storage.replication.factor" not in text
    assert "producer.acks" not in text
    assert load(tmp_path / "out/canary.properties").warnings == ()


def test_references_to_secrets_stay_references(tmp_path: Path) -> None:
    result, text, flow = written(tmp_path, PROPERTIES, "--topic", "orders", "--start", "latest")
    assert f"west.sasl.jaas.config = {JAAS}" in text
    assert "geheim" not in text + result.output
    assert flow.producer.client.sasl_password == "geheim"
    assert str(flow.start_of("orders")) == "latest"
    assert (tmp_path / "out/canary.properties").stat().st_mode & 0o077 == 0


def test_the_next_commands_are_printed_and_ports_are_left_out(tmp_path: Path) -> None:
    result, text, _ = written(tmp_path, PROPERTIES, "--topic", "orders")
    path = tmp_path / "out/canary.properties"
    for command in ("plan", "run", "status"):
        assert f"twinlog {command} {path}" in result.output
    assert f"twinlog canary report {tmp_path / 'mm2.properties'} {path}" in result.output
    assert "left out, as two processes cannot share a port: twinlog.metrics.listeners" in result.output
    assert "metrics" not in text


def test_options_may_come_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES)
    assert run("--topic", "orders", "-o", tmp_path / "out", file).exit_code == 0


def test_existing_files_stay(tmp_path: Path) -> None:
    _, text, _ = written(tmp_path, PROPERTIES, "--topic", "orders")
    again = run(tmp_path / "mm2.properties", "--topic", "orders.eu", "-o", tmp_path / "out")
    assert again.exit_code == 2
    assert "exists, and nothing was written; remove it, or choose another --output-dir" in again.output
    assert (tmp_path / "out/canary.properties").read_text() == text


def test_a_taken_alias_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, PROPERTIES, "--topic", "orders", "--alias", "west")
    assert "the alias west is taken" in text
    assert "--alias west-2" in text


def test_a_topic_outside_of_the_filter_is_refused(tmp_path: Path) -> None:
    text = refusal(tmp_path, PROPERTIES, "--topic", "orders", "--topic", "stock")
    assert "east->west leaves out stock" in text
    assert "orders (" not in text
    assert "no name of a topic" in refusal(tmp_path, PROPERTIES, "--topic", "orders.*")


@pytest.mark.parametrize(
    "kept",
    [
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.policy.separator =\nsource.cluster.alias =",
    ],
)
def test_kept_names_need_a_prefix(tmp_path: Path, kept: str) -> None:
    text = f"{PROPERTIES}{kept}\n".replace("source.cluster.alias", "east->west.source.cluster.alias")
    assert "add --prefix" in refusal(tmp_path, text, "--topic", "orders")
    _, _, flow = written(tmp_path, text, "--topic", "orders", "--prefix")
    assert topology_of(flow).copy_of(TopicName("orders")) == "east-canary.orders"
    assert not flow.keeps_names


def test_a_flow_that_would_copy_the_canarys_topics_is_named(tmp_path: Path) -> None:
    text = f"{PROPERTIES}west->east.enabled = true\nwest->east.topics = .*\n"
    refused = refusal(tmp_path, text, "--topic", "orders", "--flow", "east->west")
    assert "flow west->east would copy the canary's topic east-canary.orders from west to east" in refused
    assert "add east-canary[.].* to west->east.topics.exclude" in refused
    result, _, _ = written(tmp_path, text, "--topic", "orders", "--flow", "east->west", "--copied-further")
    assert "note: MirrorMaker 2's flow west->east would copy" in result.output
    excluded = f"{text}west->east.topics.exclude = mm2.*internal, __.*, east-canary[.].*\n"
    (tmp_path / "out/canary.properties").unlink()
    written(tmp_path, excluded, "--topic", "orders", "--flow", "east->west")


def test_several_flows_need_a_choice(tmp_path: Path) -> None:
    text = f"{PROPERTIES}west->east.enabled = true\nwest->east.topics = stock\n"
    assert "choose one of" in refusal(tmp_path, text, "--topic", "orders")


def test_connectors_of_a_worker_become_properties(tmp_path: Path) -> None:
    worker, source = tmp_path / "worker.properties", tmp_path / "source.json"
    worker.write_text(
        "bootstrap.servers = west:9092\ngroup.id = cluster\nkey.converter = org.apache.kafka.connect.converters."
        "ByteArrayConverter\nvalue.converter = org.apache.kafka.connect.converters.ByteArrayConverter\n"
        "config.storage.topic = c\noffset.storage.topic = o\nstatus.storage.topic = s\n"
    )
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": "east:9092",
        "target.cluster.bootstrap.servers": "west:9092",
        "source.cluster.sasl.jaas.config": JAAS.replace("${env:WORD}", "offen"),
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "topics": "orders.*",
    }
    source.write_text(json.dumps({"name": "east-to-west", "config": config}))
    result = run(worker, source, "--topic", "orders", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    path = tmp_path / "out/canary.properties"
    (flow,) = load(path).flows
    assert (flow.name, flow.topics) == ("east-canary->west", ("orders",))
    assert flow.positions_topic == "mm2-offsets.east-canary.internal"
    # A password in clear text goes to a file that only its owner may read.
    assert "offen" not in path.read_text() + result.output
    assert flow.consumer.client.sasl_password == "offen"
    assert f"twinlog canary report {worker} {path} {source}" in result.output
