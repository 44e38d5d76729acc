"""Strimzi's resource in both versions: what it comes to in settings, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.certificates import authority
from tests.unit.config.said import said
from tests.unit.config.strimzi.resources import HERE, OLD, V1, problems, read, secret_files, written
from twinlog.config import load
from twinlog.config.file_kind import is_resource
from twinlog.config.strimzi.fields import FIELDS, Version
from twinlog.config.strimzi.load import load_resource
from twinlog.config.strimzi.reference import render


def test_v1_becomes_a_worker_and_its_connectors(tmp_path: Path) -> None:
    config = read(tmp_path, V1)
    group = config.worker.settings.group
    assert group is not None
    assert (group.group_id, group.config_storage.name, group.status_storage.name, group.offset_storage.name) == (
        *("mirrors", "mirrors-configs", "mirrors-states", "mirrors-positions"),
    )
    source, checkpoint = config.flows
    assert (source.name, source.kind) == ("east->west.MirrorSourceConnector", "source")
    assert (checkpoint.name, checkpoint.kind) == ("east->west.MirrorCheckpointConnector", "checkpoint")
    assert source.settings.topics == checkpoint.settings.topics == ("orders.*", "clicks")
    assert checkpoint.settings.groups_exclude == ("test-.*",)
    assert source.settings.tasks_max == 2
    assert source.settings.consumer.client.bootstrap_servers == ("east:9092",)
    assert source.settings.producer.client.bootstrap_servers == ("west:9092",)
    assert said(config.warnings) == ()


def test_every_command_gets_one_flow_for_each_mirror(tmp_path: Path) -> None:
    config = load(written(tmp_path, V1))
    (one,) = config.flows
    assert (one.name, one.enabled, one.replication_factor) == ("east->west", True, 1)
    assert (one.positions_topic, one.connector_name) == ("mirrors-positions", "east->west.MirrorSourceConnector")
    assert one.group_id == "mirrors"
    assert one.sync_group_offsets_interval_s is not None
    assert one.emit_heartbeats_interval_s is None


def test_a_mirror_without_checkpoints_translates_nothing(tmp_path: Path) -> None:
    text = V1.replace("      checkpointConnector:\n        config:\n          sync.group.offsets.enabled: true\n", "")
    (one,) = load(written(tmp_path, text)).flows
    assert (one.emit_checkpoints_interval_s, one.sync_group_offsets_interval_s) == (None, None)


def test_the_resource_of_a_migration(tmp_path: Path) -> None:
    ca = authority()
    user = ca.issue("admin")
    for secret in ("origin-cluster-ca-cert", "destination-cluster-ca-cert"):
        (tmp_path / secret).mkdir()
        (tmp_path / secret / "ca.crt").write_text(ca.pem, "ascii")
    for secret in ("admin-user-1", "admin-user-2"):
        (tmp_path / secret).mkdir()
        (tmp_path / secret / "user.crt").write_text(user.pem, "ascii")
        (tmp_path / secret / "user.key").write_text(user.key_pem(), "ascii")
    config = load_resource(HERE / "migration.yaml", tmp_path)
    kinds = [(one.kind, one.settings.policy) for one in config.flows]
    assert kinds == [("source", "identity"), ("checkpoint", "identity"), ("heartbeat", "identity")]
    client = config.flows[0].settings.consumer.client
    assert client.security_protocol == "SSL"
    assert client.tls is not None
    assert config.worker.settings.client.tls is not None
    (named,) = [warning for warning in said(config.warnings) if "these fields are ignored here" in warning]
    for field, line in (("spec.version", 6), ("spec.readinessProbe", 71), ("spec.livenessProbe", 74)):
        assert f"{field} (line {line})" in named
    assert "spec.clusters[0].config.config.storage.replication.factor (line 23)" in named
    (one,) = load(HERE / "migration.yaml", secrets=tmp_path).flows
    assert (one.policy, one.tasks_max, one.offset_syncs_replication_factor) == ("identity", 3, 1)
    assert one.emit_heartbeats_interval_s is not None


def test_v1beta2_has_defaults_of_its_own(tmp_path: Path) -> None:
    config = read(tmp_path, OLD)
    assert config.worker.settings.group is not None
    assert config.worker.settings.group.group_id == "mirrormaker2-cluster"
    assert [(one.kind, one.state) for one in config.resource.connectors] == [
        ("source", "RUNNING"),
        ("heartbeat", "PAUSED"),
    ]
    assert config.flows[0].settings.topics_exclude == ("x.*",)


def test_without_replicas_nothing_runs(tmp_path: Path) -> None:
    config = read(tmp_path, V1.replace("replicas: 1", "replicas: 0"))
    assert {one.state for one in config.resource.connectors} == {"PAUSED"}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("replicas: 1", "replicas: many", ":6: spec.replicas: the string 'many'; write a whole number"),
        ("replicas: 1", "replicas: -1", ":6: spec.replicas: -1 is too small; write 0 or more"),
        ("  replicas: 1\n", "", ":5: spec.replicas: missing; write a whole number"),
        ("replicas: 1", "replica: 1", ":6: spec.replica: unknown field; did you mean re"),
        ("alias: east", "alias: a b", ":16: spec.mirrors[0].source.alias: 'a b' is invalid; write a text that matches"),
        ("alias: east", "alias: 7", ':16: spec.mirrors[0].source.alias: the integer \'7\'; write a text, "7" in'),
        ("tasksMax: 2", "tasksMax: 0", ":19: spec.mirrors[0].sourceConnector.tasksMax: 0 is too small; write 1 or"),
        ("tasksMax: 2", "state: halted", ":19: spec.mirrors[0].sourceConnector.state: 'halted' is invalid; write"),
        ("tasksMax: 2", "pause: true", ":19: spec.mirrors[0].sourceConnector.pause: unknown field; pause is"),
        ("replication.factor: 1", "replication.factor: x", ":21: spec.mirrors[0].sourceConnector.config.repli"),
        ("replication.factor: 1", "replication.factor: [1]", ":21: spec.mirrors[0].sourceConnector.config.repli"),
        ('"orders.*, clicks"', '"orders.(*"', ":25: spec.mirrors[0].topicsPattern"),
        ("alias: east", "alias: west", ":15: spec.mirrors[0]: west would mirror itself; write another cluster"),
        ("kafka.strimzi.io/v1", "kafka.strimzi.io/v2", ":1: apiVersion: 'kafka.strimzi.io/v2' is invalid; write"),
        ("KafkaMirrorMaker2", "KafkaConnect", ":1: kind: 'KafkaConnect' is invalid; write a single resource of kind"),
        ("  mirrors:", " mirrors:", ":14: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, before: str, after: str, found: str) -> None:
    assert before in V1
    lines = problems(tmp_path, V1.replace(before, after))
    assert [line for line in lines if line.startswith(found)], lines
    assert len(set(lines)) == len(lines)


def test_an_alias_that_nobody_knows(tmp_path: Path) -> None:
    assert problems(tmp_path, OLD.replace("sourceCluster: east", "sourceCluster: north"))[0].startswith(
        ":13: spec.mirrors[0].sourceCluster: 'north' is invalid; write an alias of spec.clusters: east, west"
    )


def test_settings_that_strimzi_drops_are_named(tmp_path: Path) -> None:
    text = V1.replace(
        "    alias: west\n", "    alias: west\n    config:\n      sasl.mechanism: PLAIN\n      group.id: x\n"
    )
    config = read(tmp_path, text)
    (warning,) = said(config.warnings)
    assert warning.endswith(
        "are ignored here: spec.target.config.sasl.mechanism (line 10), spec.target.config.group.id (line 11)"
    )
    assert config.worker.settings.client.sasl_mechanism is None


def test_loggers_stand_in_the_resource_or_in_a_config_map(tmp_path: Path) -> None:
    inline = V1 + "  logging: {type: inline, loggers: {rootLogger.level: DEBUG}}\n"
    assert read(tmp_path, inline).resource.loggers == {"rootLogger.level": "DEBUG"}
    reference = "{configMapKeyRef: {name: logs, key: log4j2.properties}}"
    external = V1 + f"  logging: {{type: external, valueFrom: {reference}}}\n"
    (warning,) = said(read(tmp_path, external).warnings)
    assert warning.endswith("spec.logging (line 27)")
    maps = secret_files(tmp_path / "maps", logs__log4j2_DOT_properties="rootLogger.level = WARN\n")
    assert read(tmp_path, external, maps).resource.loggers == {"rootLogger.level": "WARN"}


def test_strimzis_own_config_providers_lead_to_the_secrets_of_the_resource(tmp_path: Path) -> None:
    text = V1.replace(
        "    offsetStorageTopic: mirrors-positions\n",
        """\
    offsetStorageTopic: mirrors-positions
    config:
      config.providers: secrets, maps, env, vault
      config.providers.secrets.class: io.strimzi.kafka.KubernetesSecretConfigProvider
      config.providers.maps.class: io.strimzi.kafka.KubernetesConfigMapConfigProvider
      config.providers.env.class: io.strimzi.kafka.EnvVarConfigProvider
      config.providers.vault.class: io.lenses.connect.secrets.providers.VaultSecretProvider
""",
    ).replace(
        "          replication.factor: 1\n",
        """\
          replication.factor: ${maps:kafka/mm2:replicas}
          producer.override.client.id: ${secrets:kafka/mm2:name}
""",
    )
    config = read(tmp_path, text, secret_files(tmp_path / "secrets", mm2__replicas="3", mm2__name="söurce\n"))
    (source,) = (flow.settings for flow in config.flows if flow.kind == "source")
    assert (source.replication_factor, source.producer.client.client_id) == (3, "söurce")
    (warning,) = (text for text in said(config.warnings) if "VaultSecretProvider" in text)
    assert warning.startswith(f"{tmp_path}/mirror.yaml:19: config.providers.vault.class: the Java class ")
    needed = text.replace("${secrets:kafka/mm2:name}", "${vault:mm2:name}")
    (problem,) = problems(tmp_path, needed.replace("${maps:kafka/mm2:replicas}", "3"))
    assert problem.startswith(":28: spec.mirrors[0].sourceConnector.config.producer.override.client.id: ${")
    assert "(config.providers.vault.class of line 19)" in problem


def test_a_rack_is_that_of_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE", "a")
    config = read(tmp_path, V1 + "  rack: {type: environment-variable, envVarName: ZONE}\n")
    assert config.flows[0].settings.consumer.client_rack == "a"


def test_a_resource_is_told_from_other_files(tmp_path: Path) -> None:
    assert is_resource(written(tmp_path, V1))
    assert is_resource(written(tmp_path, json.dumps({"apiVersion": "v1", "kind": "List"}, indent=1)))
    assert not is_resource(written(tmp_path, "clusters = a, b\nkind = x\napiVersion = y\n"))
    assert not is_resource(tmp_path / "missing")


def test_the_page_is_made_of_the_table() -> None:
    page = HERE.parents[3] / "docs" / "strimzi.md"
    assert page.read_text("utf-8") == render(), "run: python -m twinlog.config.strimzi.reference > docs/strimzi.md"


def paths(schema: dict[str, object], prefix: str, found: dict[str, dict[str, object]]) -> None:
    properties = schema.get("properties", {})
    assert isinstance(properties, dict)
    for name, below in properties.items():
        path = f"{prefix}.{name}".lstrip(".")
        found[path] = below
        paths(below, path, found)
        if below.get("type") == "array":
            found[f"{path}[]"] = below["items"]
            paths(below["items"], f"{path}[]", found)


@pytest.mark.parametrize("version", ["v1beta2", "v1"])
def test_the_table_of_fields_is_that_of_strimzis_schema(version: Version) -> None:
    theirs: dict[str, dict[str, object]] = {}
    paths(json.loads((HERE / f"crd-{version}.json").read_text("utf-8")), "", theirs)
    ours = {path: field for path, field in FIELDS.items() if version in field.versions}
    assert set(ours) == set(theirs)
    kinds = {"object": "map", "array": "list"}
    for path, field in ours.items():
        schema = theirs[path]
        kind = str(schema["type"])
        assert field.type == kinds.get(kind, kind), path
        choices = tuple(word for word in field.choices if version == "v1beta2" or word not in {"oauth", "jaeger"})
        assert sorted(choices) == sorted(schema.get("enum", ())), path  # type: ignore[call-overload]
        if path != "spec.replicas":
            assert field.minimum == schema.get("minimum"), path
        assert field.pattern == schema.get("pattern"), path
        below = {
            name.removeprefix(f"{path}.")
            for name, one in ours.items()
            if version in one.required and name.startswith(f"{path}.")
        }
        # Its schema of v1beta2 leaves it open, and its operator refuses what has none.
        required = {name for name in below if "." not in name} - ({"mirrors"} if version == "v1beta2" else set())
        assert required == set(schema.get("required", ())), path  # type: ignore[call-overload]
