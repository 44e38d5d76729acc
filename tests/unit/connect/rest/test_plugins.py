"""What a worker shows of its plugins is what Kafka's own worker shows, recorded of 3.9 and 4.3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from twinlog.config.connector import CONNECTOR_CLASSES
from twinlog.config.keys.converter import CONVERTERS
from twinlog.errors import RequestError
from twinlog.worker.connectors.definitions import plugin_keys, plugins
from twinlog.worker.connectors.model import KeyDefinition

ROWS = [
    json.loads(line) for line in (Path(__file__).parents[3] / "recorded" / "plugins.jsonl").read_text().splitlines()
]
KEYS = [row for row in ROWS if "plugin" in row]

# Defaults that are twinlog's own: what a form shows has to be what counts.
SHORTER = {
    "refresh.topics.interval.seconds",
    "sync.topic.configs.interval.seconds",
    "sync.topic.acls.interval.seconds",
    "refresh.groups.interval.seconds",
    "emit.checkpoints.interval.seconds",
    "sync.group.offsets.interval.seconds",
}
OWN_DEFAULTS = {
    "4.3.0": SHORTER | {"transaction.boundary.interval.ms"},
    # Lists of 4.x count whatever release a worker speaks like.
    "3.9.1": SHORTER
    | {"transaction.boundary.interval.ms", "topics.exclude", "config.properties.exclude"}
    | {"metric.reporters", "ssl.cipher.suites", "sasl.oauthbearer.expected.audience"},
}


def facts(key: KeyDefinition) -> list[Any]:
    return [
        key.name,
        key.type,
        key.required,
        key.default_value,
        key.importance,
        key.group,
        key.order,
        key.width,
        key.display_name,
    ]


@pytest.mark.parametrize("row", KEYS, ids=[f"{row['version']} {row['plugin']}" for row in KEYS])
def test_keys_are_those_of_kafka(row: dict[str, Any]) -> None:
    ours = [facts(key) for key in plugin_keys(row["plugin"], row["version"])]
    assert [fact[0] for fact in ours] == [fact[0] for fact in row["keys"]]
    different = {mine[0] for mine, theirs in zip(ours, row["keys"], strict=True) if mine != theirs}
    assert different == OWN_DEFAULTS[row["version"]] & {fact[0] for fact in ours}
    for mine, theirs in zip(ours, row["keys"], strict=True):
        assert mine[:3] + mine[4:] == theirs[:3] + theirs[4:]


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_every_key_has_a_sentence_and_no_passwords_default(version: str) -> None:
    for plugin in plugins(version, connectors_only=False):
        for key in plugin_keys(plugin.name, version):
            assert key.documentation.endswith(".")
            assert key.type != "PASSWORD" or key.default_value in {None, "[hidden]"}


def test_the_listing_begins_with_the_connectors() -> None:
    connectors = plugins("4.3.0")
    assert [plugin.name for plugin in connectors] == sorted(CONNECTOR_CLASSES.values())
    assert {(plugin.kind, plugin.version) for plugin in connectors} == {("source", "4.3.0")}
    every = plugins("4.3.0", connectors_only=False)
    assert list(every[:3]) == list(connectors)
    converters = [plugin.name for plugin in every if plugin.kind == "converter"]
    assert converters == list(CONVERTERS)
    headers = [plugin.name for plugin in every if plugin.kind == "header_converter"]
    assert set(headers) - set(converters) == {"org.apache.kafka.connect.storage.SimpleHeaderConverter"}


@pytest.mark.parametrize("name", ["MirrorSource", "ByteArray", "org.apache.kafka.connect.json.JsonConverter", "Simple"])
def test_a_plugin_may_be_named_short(name: str) -> None:
    assert plugin_keys(name, "4.3.0") is not None


@pytest.mark.parametrize(("wanted", "status"), [("4.3.0", 0), ("latest", 0), ("[4.0,5.0)", 0), ("3.9.1", 400)])
def test_a_plugin_has_one_version(wanted: str, status: int) -> None:
    if status == 0:
        assert plugin_keys("MirrorSource", "4.3.0", wanted)
        return
    with pytest.raises(RequestError, match=r"the only version of .* is 4\.3\.0") as caught:
        plugin_keys("MirrorSource", "4.3.0", wanted)
    assert caught.value.status == status


def test_an_unknown_plugin_is_not_found() -> None:
    with pytest.raises(RequestError, match="Unknown plugin FileStreamSource") as caught:
        plugin_keys("FileStreamSource", "4.3.0")
    assert caught.value.status == 404
