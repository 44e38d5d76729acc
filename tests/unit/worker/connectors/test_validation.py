"""A validation finds what Kafka's worker finds, and what that would only find when the connector starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.files import worker_files
from twinlog.config.connector import CONNECTOR_CLASSES, build_connector
from twinlog.config.keys.table import ALL_KEYS, CONNECTOR_KEYS, SECURITY
from twinlog.config.properties import parse_properties
from twinlog.config.worker import WorkerConfig, load_worker, worker_of
from twinlog.errors import RequestError
from twinlog.errors.message_ids import ID, told
from twinlog.settings.flow import ConnectorKind
from twinlog.worker.connectors.definitions import listed_keys
from twinlog.worker.connectors.model import KeyDefinition, KeyValue, Validation
from twinlog.worker.connectors.validation import refused, validate

RECORDED = Path(__file__).parents[3] / "recorded"
CASES: dict[str, dict[str, str | None]] = json.loads((RECORDED / "validations.json").read_text("utf-8"))
ROWS = [json.loads(line) for line in (RECORDED / "plugins.jsonl").read_text("utf-8").splitlines()]
VALIDATED = [row for row in ROWS if "case" in row]
MANUALS = Path(__file__).parents[2] / "config" / "connectors"
VERSION = "4.3.0"

WORKER = worker_files.distributed()
GOOD: dict[str, str | None] = {
    "name": "mine",
    "connector.class": CONNECTOR_CLASSES["source"],
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "b:1",
}

# What Kafka's worker lets through and stumbles on later, or runs in another way than this one can.
MORE: dict[str, set[str]] = {
    "unknown level of support": {"transaction.boundary"},
    "offset syncs off in capitals": {"emit.offset-syncs.enabled"},
    "passwords and unknown keys": {"producer.override.acks"},
    "overrides": {"producer.override.acks"},
    "a transform": {"transforms.t.static.field", "value.converter"},
    "null": {"topics"},
    "broken pattern": {"topics"},
    "zeros": {"refresh.topics.interval.seconds", "replication.factor"},
    "other classes": {"forwarding.admin.class", "topic.filter.class"},
}
# Keys of what is refused as a whole, and lists that may be empty here.
LESS: dict[str, set[str]] = {
    "empty lists": {"metric.names.formats"},
}


def worker(text: str = "") -> WorkerConfig:
    return worker_of(parse_properties(WORKER + text, "w.properties"), "w.properties")


def check(change: Mapping[str, str | None], text: str = "", plugin: str = "MirrorSourceConnector") -> Validation:
    return validate(plugin, {**GOOD, **change}, worker(text), VERSION)


def errors(found: Validation) -> dict[str, list[str]]:
    return {value.name: list(value.errors) for _, value in found.configs if value.errors}


def one(found: Validation, name: str) -> tuple[KeyDefinition | None, KeyValue]:
    return next((definition, value) for definition, value in found.configs if value.name == name)


@pytest.mark.parametrize("row", VALIDATED, ids=[f"{row['version']} {row['case']}" for row in VALIDATED])
def test_the_same_keys_are_wrong_as_in_kafka(row: dict[str, Any]) -> None:
    case, config = row["case"], CASES[row["case"]]
    if row["wrong"] is None:
        with pytest.raises(RequestError) as caught:
            validate("MirrorSourceConnector", config, worker(), row["version"])
        assert caught.value.status == 400
        return
    found = validate(str(config["connector.class"]), config, worker(), row["version"])
    theirs, ours = set(row["wrong"]), set(errors(found))
    assert ours - theirs <= MORE.get(case, set())
    assert theirs - ours <= LESS.get(case, set())
    assert found.error_count == len(found.errors) >= len(ours)


def test_a_worker_lists_every_key_with_facts_for_a_form() -> None:
    kinds: tuple[ConnectorKind, ...] = get_args(ConnectorKind)
    listed = {key.name for kind in kinds for release in ((3, 9), (4, 3)) for key in listed_keys(kind, release)}
    assert {key.name for key in ALL_KEYS if key.shown is not None} == listed


def test_a_good_configuration_has_no_error_and_every_group() -> None:
    found = check({})
    assert found.error_count == 0
    assert found.name == CONNECTOR_CLASSES["source"]
    assert found.groups == (
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
    )
    assert one(found, "topics")[1] == KeyValue("topics", ".*")
    assert one(found, "key.converter.plugin.version")[1].visible is False


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({"transforms": "route"}, "transforms.route.type", "Missing required configuration"),
        (
            {"transforms": "t", "transforms.t.type": "no.Such"},
            "transforms.t.type",
            "transform = package.module:function",
        ),
        ({"topics": "a("}, "topics", "an unclosed parenthesis, at character 2 of 'a('"),
        ({"source.cluster.bootstrap.servers": None}, "source.cluster.bootstrap.servers", "brokers of this cluster"),
        ({"target.cluster.security.protocol": "SASL_SSL"}, "target.cluster.sasl.mechanism", "SCRAM-SHA-512"),
        ({"exactly.once.support": "required"}, "exactly.once.support", "the worker's exactly.once.source.support"),
        ({"connector.plugin.version": "1.0"}, "connector.plugin.version", "the only version here is 4.3.0"),
        ({"twinlog.gap.policy": "guess"}, "twinlog.gap.policy", "expected hold, skip, continue or stop"),
        ({"key.converter": "my.Converter"}, "key.converter", "ByteArrayConverter"),
    ],
)
def test_an_error_stands_at_its_key_and_names_the_way_out(change: dict[str, str | None], name: str, words: str) -> None:
    found = check(change)
    assert any(words in error for error in errors(found)[name]), errors(found)


@pytest.mark.parametrize(
    ("change", "name", "message_id"),
    [
        ({"tasks.max": "0"}, "tasks.max", "TW-FILE-22"),
        ({"tasks.max": None}, "tasks.max", "TW-FILE-22"),
        ({"transforms": "route"}, "transforms.route.type", "TW-FILE-26"),
        ({"topics": "a("}, "topics", "TW-FILE-04"),
        ({"key.converter": "my.Converter"}, "key.converter", "TW-FILE-31"),
    ],
)
def test_an_error_ends_with_the_id_of_its_meaning(change: dict[str, str | None], name: str, message_id: str) -> None:
    found = check(change)
    assert all(error.endswith(f" [{message_id}]") for error in errors(found)[name]), errors(found)
    assert f" [{message_id}]\n" in refused(found)


def test_a_configuration_without_a_known_class_is_refused_with_an_id() -> None:
    for name, message_id in ((None, "TW-FILE-26"), ("FileStreamSource", "TW-FILE-31")):
        with pytest.raises(RequestError) as caught:
            check({"connector.class": name}, plugin="FileStreamSource")
        assert told(caught.value).startswith(f"{message_id}: ")


@pytest.mark.parametrize("kind", ["checkpoint", "heartbeat"])
def test_only_a_source_connector_copies_in_transactions(kind: str) -> None:
    name = CONNECTOR_CLASSES["checkpoint" if kind == "checkpoint" else "heartbeat"]
    found = check({"connector.class": name, "exactly.once.support": "required"}, plugin=name)
    assert "required is for connectors that copy records, unlike" in errors(found)["exactly.once.support"][0]


def test_exactly_once_may_be_required_where_worker_and_consumer_agree() -> None:
    change = {"exactly.once.support": "required", "source.consumer.isolation.level": "read_committed"}
    assert check(change, "exactly.once.source.support = enabled\n").error_count == 0


@pytest.mark.parametrize("name", ["MirrorSourceConnector", "MirrorSource", CONNECTOR_CLASSES["source"]])
def test_a_class_may_be_named_short(name: str) -> None:
    assert check({"connector.class": name}, plugin="MirrorSource").name == name


@pytest.mark.parametrize(
    ("plugin", "change", "words"),
    [
        ("FileStreamSource", {"connector.class": "FileStreamSource"}, "it runs MirrorMaker 2's three"),
        ("MirrorHeartbeatConnector", {}, "does not match request type MirrorHeartbeatConnector"),
        ("MirrorSourceConnector", {"connector.class": None}, "contains no connector type"),
    ],
)
def test_what_cannot_be_validated(plugin: str, change: dict[str, str | None], words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        check(change, plugin=plugin)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("policy", "setting", "allowed"),
    [
        ("All", "linger.ms", True),
        ("None", "linger.ms", False),
        ("Principal", "sasl.mechanism", True),
        ("Principal", "linger.ms", False),
        ("Allowlist\nconnector.client.config.override.allowlist = linger.ms", "linger.ms", True),
        ("Allowlist\nconnector.client.config.override.allowlist = linger.ms", "batch.size", False),
    ],
)
def test_the_workers_policy_decides_what_may_be_overridden(policy: str, setting: str, allowed: bool) -> None:
    name = f"producer.override.{setting}"
    found = check(
        {name: "PLAIN" if "sasl" in setting else "5"}, f"connector.client.config.override.policy = {policy}\n"
    )
    definition, shown = one(found, name)
    assert definition is not None
    assert definition.display_name == setting
    assert (not shown.errors) is allowed
    assert allowed or "to be overridden (connector.client.config.override.policy = " in shown.errors[0]


def test_other_clients_of_connect_count_only_where_it_has_them() -> None:
    policy = "connector.client.config.override.policy = None\n"
    change = {"consumer.override.max.poll.records": "5"}
    assert check(change, policy).error_count == 0
    assert check({**change, "offsets.storage.topic": "own"}, policy).error_count == 1


def test_settings_of_a_converter_are_keys_too() -> None:
    found = check(
        {"key.converter": " org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "maybe"}
    )
    assert set(errors(found)) == {"key.converter.schemas.enable"}
    assert one(found, "key.converter.converter.type")[1].value == "key"
    assert set(found.groups) >= {"Schemas", "Serialization"}
    definition, _ = one(found, "key.converter.schemas.cache.size")
    assert definition is not None
    assert (definition.group, definition.order, definition.default_value) == ("Schemas", 1, "1000")


def test_references_are_shown_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MANUALS / "passwords")
    config = {**json.loads(Path("source.json").read_text()), "name": "x"}
    from_file = load_worker("worker.properties")
    secret = "${file:kafka.properties:mirror.one.password}"
    for name in ("topics", "tasks.max", "source.cluster.alias", "sasl.jaas.config", "source.cluster.sasl.mechanism"):
        found = validate("MirrorSource", {**config, name: secret}, from_file, VERSION)
        assert "hush" not in repr(found), name
    assert validate("MirrorSource", config, from_file, VERSION).error_count == 0


def test_a_reference_that_leads_nowhere_has_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MANUALS / "passwords")
    config = {**json.loads(Path("source.json").read_text()), "name": "x"}
    lost = "${file:kafka.properties:none}"
    way_out = "kafka.properties lacks a key 'none'; add a line none = VALUE to it, or correct the key"
    for name in ("topics", "tasks.max"):
        found = validate("MirrorSource", {**config, name: lost}, load_worker("worker.properties"), VERSION)
        (error,) = (text for _, value in found.configs for text in value.errors)
        assert error == f"Invalid value {lost} for configuration {name}: {way_out} [TW-FILE-08]"


known = sorted({key.name for key in CONNECTOR_KEYS} | {f"source.cluster.{name}" for name in SECURITY.exact})


@given(
    st.dictionaries(
        st.sampled_from(known) | st.text(max_size=12),
        st.none() | st.sampled_from(["true", "1", " ", "x", "${env:NOTHING}"]) | st.text(max_size=12),
        max_size=8,
    )
)
def test_no_configuration_breaks_a_validation(change: dict[str, str | None]) -> None:
    change.pop("connector.class", None)
    found = check(change)
    names = [value.name for _, value in found.configs]
    assert len(names) == len(set(names))
    assert {name for name, value in change.items() if value is None} <= set(errors(found))
    assert [error for error in found.errors if len(ID.findall(error)) != 1] == []


@given(st.sampled_from(sorted(name for name, key in SECURITY.exact.items() if key.secret)), st.text("xyz", min_size=9))
def test_a_password_is_never_shown(name: str, secret: str) -> None:
    for full in (name, f"source.cluster.{name}", f"producer.override.{name}"):
        change: dict[str, str | None] = {full: secret, "source.cluster.security.protocol": "SASL_SSL"}
        assert secret not in repr(check(change))


def test_a_connector_that_does_not_fit_to_another_is_told_how_to() -> None:
    there = build_connector("copies", {**GOOD, "name": "copies", "offset-syncs.topic.location": "target"}, worker())
    change = {"connector.class": CONNECTOR_CLASSES["checkpoint"]}
    found = validate("MirrorCheckpoint", {**GOOD, **change}, worker(), VERSION, [there])
    definition, value = one(found, "offset-syncs.topic.location")
    assert definition is not None
    assert found.error_count == 0
    assert value.recommended_values == ("target",)
    assert definition.documentation.startswith(
        "mine looks for offset syncs in mm2-offset-syncs.b.internal on the source"
    )


def test_transforms_and_predicates_bring_their_keys() -> None:
    package = "org.apache.kafka.connect.transforms"
    found = check(
        {
            "transforms": "route",
            "transforms.route.type": f"{package}.RegexRouter",
            "transforms.route.regex": "a\\.(.*)",
            "transforms.route.replacement": "$1",
            "transforms.route.predicate": "p",
            "predicates": "p",
            "predicates.p.type": f"{package}.predicates.TopicNameMatches",
            "predicates.p.pattern": "a.*",
        }
    )
    assert found.error_count == 0
    assert {"Transforms: route", "Predicates: p"} <= set(found.groups)
    definition, value = one(found, "transforms.route.regex")
    assert definition is not None
    assert (definition.group, definition.order, definition.required) == ("Transforms: route", 3, True)
    assert value == KeyValue("transforms.route.regex", "a\\.(.*)")
    assert one(found, "transforms.route.negate")[1].value == "false"
