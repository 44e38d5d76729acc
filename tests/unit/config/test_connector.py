"""What the configuration of a connector comes to: the flow of a dedicated MirrorMaker 2, but one third of its work."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.files import worker_files
from tests.unit.config.said import said
from twinlog.config import load
from twinlog.config.connector import CONNECTOR_CLASSES, ConnectorFlow, build_connector, connector_kind
from twinlog.config.keys.table import CONNECTOR_KEYS
from twinlog.config.properties import parse_properties
from twinlog.config.worker import WorkerConfig, load_worker, worker_of
from twinlog.errors import ConfigError
from twinlog.mirror.offsets.positions import position_key
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.flow import ConnectorKind

FOLDER = Path(__file__).parent / "connectors"
KINDS: tuple[ConnectorKind, ...] = ("source", "checkpoint", "heartbeat")
WORKER = worker_files.distributed()
ENDS = {
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "b:1",
}


def worker(text: str = "") -> WorkerConfig:
    return worker_of(parse_properties(WORKER + text, "w.properties"), "w.properties")


def build(kind: ConnectorKind, config: Mapping[str, str], text: str = "", name: str = "mine") -> ConnectorFlow:
    return build_connector(name, {"connector.class": CONNECTOR_CLASSES[kind], **config}, worker(text))


def problems(kind: ConnectorKind, config: Mapping[str, str], text: str = "") -> list[str]:
    with pytest.raises(ConfigError) as caught:
        build(kind, config, text)
    return list(said(caught.value.problems))


def test_python_classes_are_those_that_the_operator_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours_only.py").write_text(
        "loaded = []\nclass Some:\n    def accepts(self, name):\n        return True\nloaded.append(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = {**ENDS, "topic.filter.class": "ours_only:Some"}
    names = "twinlog.connector.classes in the worker's file"
    expected = f"topic.filter.class: 'ours_only:Some' is invalid; write a class that {names}"
    for text in ("", "twinlog.connector.classes = ours_only:Other, other\n"):
        (problem,) = problems("source", config, text)
        assert expected in problem
    # A connector cannot allow it itself, and nothing was loaded by asking.
    assert expected in problems("source", {**config, "twinlog.connector.classes": "ours_only"})[0]
    assert "ours_only" not in sys.modules
    for text in ("ours_only:Some", "other, ours_only"):
        flow = build("source", config, f"twinlog.connector.classes = {text}\n")
        assert flow.settings.topic_filter_class is not None


def manual(folder: str, kind: ConnectorKind, monkeypatch: pytest.MonkeyPatch) -> ConnectorFlow:
    """A connector as manuals write it, beside its worker's file."""
    monkeypatch.chdir(FOLDER / folder)
    found = json.loads(Path(f"{kind}.json").read_text())
    return build_connector(kind, found.get("config", found), load_worker("worker.properties"))


@pytest.mark.parametrize(("kind", "full"), CONNECTOR_CLASSES.items())
def test_a_class_may_be_named_in_three_ways(kind: ConnectorKind, full: str) -> None:
    simple = full.rpartition(".")[2]
    for name in (full, simple, simple.removesuffix("Connector"), f" {full} "):
        assert connector_kind(name) == kind
    assert connector_kind(f"my.{simple}") is None


def test_each_connector_does_its_own_work_and_no_other() -> None:
    config = {**ENDS, "sync.group.offsets.enabled": "true"}
    source, checkpoint, heartbeat = (build(kind, config).settings for kind in KINDS)
    work = attrgetter(
        "copies",
        "enabled",
        "sync_topic_configs_interval_s",
        "sync_topic_acls_interval_s",
        "emit_checkpoints_interval_s",
        "sync_group_offsets_interval_s",
        "emit_heartbeats_interval_s",
    )
    assert work(source) == (True, True, 30.0, 30.0, None, None, None)
    assert work(checkpoint) == (False, True, None, None, 1.0, 1.0, None)
    assert work(heartbeat) == (False, False, None, None, None, None, 1.0)


settings = st.dictionaries(
    st.sampled_from(sorted(key.name for key in CONNECTOR_KEYS if key.type.name in {"BOOL", "SHORT"})),
    st.sampled_from(["true", "false", "1", "2"]),
    max_size=6,
)


@given(settings)
def test_the_three_together_are_the_flow_of_a_file(chosen: Mapping[str, str]) -> None:
    booleans = {key.name for key in CONNECTOR_KEYS if key.type.name == "BOOL"} - {"enabled"}
    chosen = {
        name: value
        for name, value in chosen.items()
        if (name in booleans) == value.isalpha() and name not in {"enabled", "emit.offset-syncs.enabled"}
    }
    lines = "".join(f"a->b.{name} = {value}\n" for name, value in chosen.items())
    text = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n" + lines
    with NamedTemporaryFile("w", suffix=".properties") as file:
        file.write(text)
        file.flush()
        from_file = load(file.name).flows[0]
    source, checkpoint, heartbeat = (build(kind, {**ENDS, **chosen}, name="MirrorSourceConnector") for kind in KINDS)
    together = replace(
        source.settings,
        kind=None,
        worker_group_id=None,
        offset_storage_topic=None,
        emit_checkpoints_interval_s=checkpoint.settings.emit_checkpoints_interval_s,
        sync_group_offsets_interval_s=checkpoint.settings.sync_group_offsets_interval_s,
        emit_heartbeats_interval_s=heartbeat.settings.emit_heartbeats_interval_s,
    )
    assert together == from_file


names = st.text(max_size=20) | st.sampled_from([key.name for key in CONNECTOR_KEYS])


@given(st.dictionaries(names, st.text(max_size=9)))
def test_no_configuration_breaks_its_reading(config: Mapping[str, str]) -> None:
    with suppress(ConfigError):
        assert build("source", {**config, "connector.class": CONNECTOR_CLASSES["source"]}).kind == "source"


@pytest.mark.parametrize(
    ("config", "text", "setting", "value"),
    [
        ({}, "", "producer.client.bootstrap_servers", ("b:1",)),
        ({}, "producer.linger.ms = 5\nproducer.batch.size = 7\n", "producer.merge_batch_bytes", 7),
        ({"producer.override.batch.size": "9"}, "producer.batch.size = 7\n", "producer.merge_batch_bytes", 9),
        ({"producer.override.bootstrap.servers": "c:1"}, "", "producer.client.bootstrap_servers", ("c:1",)),
        ({"producer.batch.size": "9"}, "", "producer.merge_batch_bytes", 524_288),
        ({"consumer.fetch.min.bytes": "2"}, "", "consumer.fetch_min_bytes", 2),
        ({"consumer.fetch.min.bytes": "2", "source.consumer.fetch.min.bytes": "3"}, "", "consumer.fetch_min_bytes", 3),
        ({"source.admin.request.timeout.ms": "4"}, "", "source_admin.client.request_timeout_ms", 4),
        ({"admin.request.timeout.ms": "4"}, "", "target_admin.client.request_timeout_ms", 4),
        ({"topics.blacklist": "x"}, "", "topics_exclude", ("x",)),
        ({"topics": " a , b "}, "", "topics", ("a", "b")),
        ({}, "", "connector_name", "mine"),
        ({}, "", "offset_storage_topic", "positions"),
        ({"offsets.storage.topic": "own"}, "", "positions_topic", "own"),
        ({"offsets.storage.topic": "own"}, "", "earlier_positions_topic", "positions"),
        ({}, "exactly.once.source.support = enabled\n", "exactly_once", "enabled"),
        ({}, "twinlog.gap.policy = continue\n", "gap_policy.default", "continue"),
        ({"twinlog.gap.policy": "stop"}, "twinlog.gap.policy = continue\n", "gap_policy.default", "stop"),
        ({"replication.policy.class": "IdentityReplicationPolicy "}, "", "policy", None),
    ],
)
def test_what_counts(config: dict[str, str], text: str, setting: str, value: object) -> None:
    if value is None:
        assert "replication.policy.class" in problems("source", {**ENDS, **config}, text)[0]
        return
    assert attrgetter(setting)(build("source", {**ENDS, **config}, text).settings) == value


def test_names_are_those_of_connect() -> None:
    flow = build("source", ENDS).settings
    assert flow.transactional_id(2) == "workers-mine-2"
    task = flow.for_task(3)
    assert task.producer.client.client_id == "connector-producer-mine-3"
    assert task.consumer.client.client_id == "a->b|mine-3|replication-consumer"
    key = position_key(flow.source, TopicPartition(TopicName("t"), 0), flow.connector_name)
    assert key == b'["mine",{"cluster":"a","partition":0,"topic":"t"}]'
    assert flow.key("topics") == "topics"
    assert flow.switch("emit_heartbeats_interval_s") == "emit.heartbeats.enabled"


def test_a_connector_that_names_no_target_mirrors_to_the_workers_cluster() -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="p";'
    text = "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.jaas.config = " + login.format("worker")
    text += "\nproducer.security.protocol = SASL_PLAINTEXT\nproducer.sasl.mechanism = PLAIN\n"
    text += f"producer.sasl.jaas.config = {login.format('writer')}\n"
    config = {name: value for name, value in ENDS.items() if name.startswith("source.")}
    flow = build("source", config, text).settings
    assert (flow.target, flow.source_admin.client.sasl_username) == ("target", None)
    assert flow.target_admin.client.bootstrap_servers == flow.producer.client.bootstrap_servers == ("own:9092",)
    assert (flow.target_admin.client.sasl_username, flow.producer.client.sasl_username) == ("worker", "writer")
    named = build("source", ENDS, text).settings
    assert {named.target_admin.client.sasl_username, named.producer.client.sasl_username} == {None}


@pytest.mark.parametrize(
    ("kind", "config", "idle"),
    [
        ("source", {"enabled": "false"}, True),
        ("source", {"enabled": "true"}, False),
        ("checkpoint", {"enabled": "False"}, True),
        ("checkpoint", {"emit.checkpoints.enabled": "false"}, True),
        ("heartbeat", {"enabled": "false"}, False),
        ("heartbeat", {"emit.heartbeats.enabled": "false"}, True),
    ],
)
def test_who_has_nothing_to_do(kind: ConnectorKind, config: dict[str, str], idle: bool) -> None:
    assert build(kind, {**ENDS, **config}).idle is idle


@pytest.mark.parametrize(
    ("kind", "change", "found"),
    [
        ("source", {"source.cluster.alias": None}, "connector mine: source.cluster.alias: missing"),
        (
            "source",
            {"source.cluster.bootstrap.servers": None},
            "connector mine: source.cluster.bootstrap.servers: missing",
        ),
        ("source", {"topics": "a("}, "connector mine: topics: an unclosed parenthesis"),
        ("source", {"transforms": "t"}, "connector mine: transforms.t.type: missing"),
        ("source", {"target.cluster.security.protocol": "SASL_SSL"}, "mine: target.cluster.sasl.mechanism: missing"),
        ("source", {"exactly.once.support": "required"}, "the worker's exactly.once.source.support = enabled"),
        ("source", {"exactly.once.support": "required"}, "source.consumer.isolation.level = read_committed"),
        (
            "source",
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"},
            "either of the two",
        ),
        (
            "source",
            {"connector.class": "FileStreamSource"},
            "connector.class: 'FileStreamSource' is invalid; write one of org",
        ),
        ("heartbeat", {"emit.heartbeats.interval.seconds": "x"}, "emit.heartbeats.interval.seconds: 'x'"),
    ],
)
def test_what_is_refused(kind: ConnectorKind, change: dict[str, str | None], found: str) -> None:
    config = {name: value for name, value in {**ENDS, **change}.items() if value is not None}
    assert any(found in problem for problem in problems(kind, config)), problems(kind, config)


def test_a_connector_may_override_what_the_workers_policy_allows() -> None:
    policy = "connector.client.config.override.policy = Principal\n"
    login = {"producer.override.security.protocol": "PLAINTEXT"}
    assert build("source", {**ENDS, **login}, policy).settings.producer.client.security_protocol == "PLAINTEXT"
    (problem,) = problems("source", {**ENDS, "producer.override.batch.size": "9"}, policy)
    assert problem.startswith("connector mine: producer.override.batch.size: forbidden by this worker; write only")


def test_a_target_beside_the_workers_cluster_is_a_warning() -> None:
    (warning,) = said(build("source", ENDS).warnings)
    assert "its positions are in positions on b, and a worker of Kafka's would look for them on its own" in warning
    assert said(build("source", {**ENDS, "target.cluster.bootstrap.servers": "own:9092,own:9093"}).warnings) == ()


def test_heartbeats_need_no_source() -> None:
    config = {name: value for name, value in ENDS.items() if name != "source.cluster.bootstrap.servers"}
    assert build("heartbeat", config).settings.source == "a"


def test_secrets_of_other_files_are_resolved_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        flow = manual("passwords", kind, monkeypatch)
        client = flow.settings.target_admin.client
        assert (client.sasl_username, client.sasl_password) == ("mirror", "hush-two")
        assert flow.settings.producer.client.sasl_password == "hush-two"
        assert "hush" not in repr(flow)


def test_a_reference_that_leads_nowhere_is_a_problem_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER / "passwords")
    config = {**ENDS, "connector.class": "MirrorSource", "topics": "${file:kafka.properties:missing}"}
    with pytest.raises(ConfigError, match=r"topics: .*: kafka.properties lacks a key"):
        build_connector("mine", config, load_worker("worker.properties"))


def test_a_reference_to_a_provider_of_another_class_is_a_problem_where_its_value_counts() -> None:
    kind = "io.strimzi.kafka.KubernetesSecretConfigProvider"
    text = f"config.providers = secrets\nconfig.providers.secrets.class = {kind}\n"
    servers = {"source.cluster.alias": "a", "source.cluster.bootstrap.servers": "a:1"}
    unused = build("source", {**servers, "plugin.path": "${secrets:kafka/mm2:path}"}, text)
    assert unused.settings.consumer.client.bootstrap_servers == ("a:1",)
    (problem,) = problems("source", {**servers, "topics": "${secrets:kafka/mm2:topics}"}, text)
    assert problem.startswith("connector mine: topics: ")
    assert f"needs the Java class {kind} (config.providers.secrets.class of line 9)" in problem


def test_no_problem_shows_what_a_reference_led_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER / "passwords")
    secret = "${file:kafka.properties:mirror.one.password}"
    for name in ("topics", "source.cluster.sasl.mechanism", "exactly.once.support", "tasks.max"):
        config = {**json.loads(Path("source.json").read_text()), name: secret}
        try:
            text = repr(said(build_connector("mine", config, load_worker("worker.properties")).warnings))
        except ConfigError as error:
            text = f"{error} {said(error.warnings)}"
        assert "hush" not in text, name


@pytest.mark.parametrize(
    ("kind", "wrong", "meant"),
    [
        ("source", "source.cluster.admin.sasl.mechanism", "source.admin.sasl.mechanism"),
        ("checkpoint", "emit.checkpoint.enabled", "emit.checkpoints.enabled"),
        ("heartbeat", "emit.heartbeat.interval.seconds", "emit.heartbeats.interval.seconds"),
    ],
)
def test_what_manuals_misspell_is_a_warning(
    kind: ConnectorKind, wrong: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = manual("passwords", kind, monkeypatch)
    assert any(f"{wrong}: unknown key" in text and f"did you mean {meant}?" in text for text in said(flow.warnings))


def test_old_names_leading_blanks_and_settings_without_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = manual("names", "source", monkeypatch)
    assert (flow.settings.policy, flow.settings.offset_syncs_location) == ("identity", "target")
    assert flow.settings.topics_exclude == (r".*[\-\.]internal", r".*\.replica", "__consumer_offsets")
    assert flow.settings.producer.client.sasl_username == "target"
    for text in ("topics.blacklist: an old name", "producer.override.enable.idempotence", "clusters: ignored"):
        assert any(text in warning for warning in said(flow.warnings)), text


def test_names_are_kept_by_a_connector_without_alias_and_separator() -> None:
    empty = {**ENDS, "source.cluster.alias": "", "target.cluster.alias": "", "replication.policy.separator": ""}
    empty["target.cluster.bootstrap.servers"] = "own:9092"
    made = {kind: build(kind, empty).settings for kind in KINDS}
    for kind, settings in made.items():
        assert (settings.source_name, settings.target_name) == ("", ""), kind
        assert (settings.source, settings.target) == ("source", "target"), kind
        assert settings.keeps_names
    assert made["source"].offset_syncs_topic == made["checkpoint"].offset_syncs_topic == "mm2-offset-syncsinternal"
    assert made["source"].consumer.client.client_id == "->|mine|replication-consumer"
    assert made["source"].sync_topic_configs_interval_s is None
    (warning,) = said(build("source", empty).warnings)
    assert "connector mine: replication.policy.separator: with an empty separator mine creates" in warning
    assert not build("heartbeat", empty).warnings


def test_a_connector_needs_an_alias_of_its_source_that_may_be_empty() -> None:
    lacking = {key: value for key, value in ENDS.items() if key != "source.cluster.alias"}
    assert any("source.cluster.alias: missing" in problem for problem in problems("source", lacking))
    assert build("source", {**ENDS, "source.cluster.alias": ""}).settings.source_name == ""
