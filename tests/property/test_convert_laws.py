"""Laws of conversion: what a form says is said by the next one too, or named as what it cannot say."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.config import load
from twinlog.config.connector import build_connector
from twinlog.config.keys.key import Effect, Key, KeyType
from twinlog.config.keys.table import ADMIN, CONNECTOR, CONSUMER, PRODUCER
from twinlog.config.properties import read_properties
from twinlog.config.strimzi.fields import Version
from twinlog.config.strimzi.load import load_resource
from twinlog.config.text.values import ValueRefusedError, parse_value
from twinlog.config.worker import load_worker
from twinlog.errors import ConfigError
from twinlog.ops.convert.model import Mirrors, Output
from twinlog.ops.convert.readers import mirrors_of_connectors, mirrors_of_properties, mirrors_of_resource
from twinlog.ops.convert.secrets import SecretStore
from twinlog.ops.convert.to_properties import to_connectors, to_properties
from twinlog.ops.convert.to_strimzi import to_strimzi
from twinlog.settings.flow import FlowSettings

SERVERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1,c:1\nA->B.enabled = true\n"
PASSWORD = "not to be seen"
JAAS = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{PASSWORD}";'
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}
WORDS = ["true", "false", "0", "1", "-1", "7", "60000", "x.*", "a, b", "_", "none", "zstd", "read_committed", "stop"]
# Names of a process, a Java class or a file of one's own; `enabled` is that of a flow.
NOT_ALIKE = {"enabled", "clusters", "name", "connector.class", "tasks.max.enforce", "bootstrap.servers", "group.id"}


def values(key: Key) -> list[str]:
    """Values that a key takes."""
    found = []
    for word in dict.fromkeys([*key.choices, *WORDS, *([key.default] if key.default else [])]):
        try:
            parse_value(key, word)
        except ValueRefusedError:
            continue
        found.append(word)
    return found


def settings_of(prefix: str, table: Any) -> list[tuple[str, list[str]]]:
    kinds = {KeyType.BOOL, KeyType.INT, KeyType.LONG, KeyType.SHORT, KeyType.ENUM, KeyType.LIST, KeyType.DOUBLE}
    return [
        (prefix + name, values(key))
        for name, key in table.exact.items()
        if key.effect is Effect.WORKS and key.type in kinds and name not in NOT_ALIKE and values(key)
        if "cluster.alias" not in name and not name.startswith(("config.providers", "sasl.", "ssl.", "security."))
    ]


SETTINGS = [
    *settings_of("", CONNECTOR),
    *settings_of("A->B.", CONNECTOR),
    *settings_of("A.consumer.", CONSUMER),
    *settings_of("B.producer.", PRODUCER),
    *settings_of("A.admin.", ADMIN),
    *settings_of("B.admin.", ADMIN),
]


@st.composite
def files(draw: st.DrawFn) -> str:
    """Text of a properties file with two clusters."""
    chosen = draw(st.lists(st.sampled_from(SETTINGS), max_size=8, unique_by=lambda one: one[0]))
    lines = [f"{name} = {draw(st.sampled_from(known))}\n" for name, known in chosen]
    for alias in draw(st.sets(st.sampled_from("AB"))):
        lines += [f"{alias}.{key} = {value}\n" for key, value in LOGIN.items()]
    return SERVERS + "".join(lines)


def written(output: Output, folder: Path) -> None:
    """Write what a conversion made, and see that no secret stands in it."""
    for name, text in output.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        assert PASSWORD not in text
    for (name, key), value in output.secrets.items():
        path = folder / "secrets" / name / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value, "utf-8")


def alike(flow: FlowSettings) -> Any:
    """A flow without what names of workers and connectors make of it."""
    return _plain(
        replace(
            flow,
            connector_name="",
            worker_group_id=None,
            offset_storage_topic=None,
            earlier_positions_topic=None,
            class_settings=(),
            # Without heartbeats their topic does not matter.
            heartbeats_replication_factor=flow.heartbeats_replication_factor if flow.emit_heartbeats_interval_s else 3,
        )
    )


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.name != "client_id"}
    return value


def copying(path: Path, secrets: Path | None = None) -> dict[str, Any]:
    return {flow.name: alike(flow) for flow in load(path, secrets=secrets, unknown_keys="warn").flows if flow.enabled}


def workers(mirrors: Mirrors) -> Iterator[Mirrors]:
    """A worker at a time, as their files are given to it."""
    for worker in mirrors.workers:
        yield Mirrors((worker,))


@given(files())
@settings(deadline=None, max_examples=30)
def test_properties_come_back_from_connectors(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = folder / "mm2.properties"
        first.write_text(text, "latin-1")
        try:
            before = copying(first)
        except ConfigError:
            return
        mirrors = mirrors_of_properties(read_properties(first), str(first))
        assert not mirrors.not_converted
        (one,) = [each for each in workers(mirrors) if each.workers[0].target == "B"]
        output = to_connectors(one, SecretStore(str(folder / "secrets")))
        assert not output.not_converted
        written(output, folder / "connectors")
        written(Output({}, output.secrets, (), ()), folder)
        connectors = sorted((folder / "connectors").glob("*.json"))
        # They run in a worker as they are.
        config = load_worker(folder / "connectors" / "worker.properties")
        for body in one.workers[0].connectors:
            path = next(each for each in connectors if each.stem == body.name)
            read = mirrors_of_connectors(None, [path]).workers[0].connectors[0]
            flow = build_connector(read.name, {key: entry.value for key, entry in read.entries.items()}, config)
            if body.kind == "source":
                whole = next(iter(before.values()))
                mine = alike(flow.settings)
                for part in ("consumer", "producer", "topics", "topics_exclude", "replication_factor", "policy"):
                    assert mine[part] == whole[part]
        back = to_properties(
            mirrors_of_connectors(folder / "connectors" / "worker.properties", connectors),
            SecretStore(str(folder / "secrets")),
        )
        assert not [str(one) for one in back.not_converted]
        written(back, folder / "back")
        assert copying(folder / "back" / "mm2.properties") == before


@given(files(), st.sampled_from(["v1", "v1beta2"]))
@settings(deadline=None, max_examples=30)
def test_properties_come_back_from_a_resource(text: str, version: Version) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first = folder / "mm2.properties"
        first.write_text(f"{text}emit.heartbeats.enabled = false\n", "latin-1")
        try:
            before = copying(first)
        except ConfigError:
            return
        vault = SecretStore(str(folder / "secrets"))
        output = to_strimzi(mirrors_of_properties(read_properties(first), str(first)), vault, version)
        written(output, folder)
        (resource,) = folder.glob("*.yaml")
        load_resource(resource, folder / "secrets")
        if not output.not_converted:
            assert copying(resource, folder / "secrets") == before
        back = to_properties(mirrors_of_resource(resource), SecretStore(str(folder / "secrets")))
        written(back, folder / "back")
        left = {one for one in back.not_converted if "replicas" not in one.key}
        if not output.not_converted and not left:
            assert copying(folder / "back" / "mm2.properties") == before
