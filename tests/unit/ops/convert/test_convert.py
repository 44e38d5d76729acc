"""`twinlog convert`: the files that it writes, what it cannot say, and secrets that it never shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from typer.testing import CliRunner, Result

from harness.certificates import authority
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.config.properties import parse_properties, property_line
from twinlog.config.strimzi.load import load_resource

HERE = Path(__file__).parent
STRIMZI = HERE.parents[1] / "config" / "strimzi"
JAAS = 'org.apache.kafka.common.security.{}.{}LoginModule required username="u" password="{}";'
PROPERTIES = f"""\
clusters = west, east
west.bootstrap.servers = west:9092
west.security.protocol = SASL_SSL
west.sasl.mechanism = SCRAM-SHA-512
west.sasl.jaas.config = {JAAS.format("scram", "Scram", "geheim")}
west.ssl.truststore.location = /no/such/store.jks
west.ssl.truststore.password = versteckt
east.bootstrap.servers = east:9092
west->east.enabled = true
west->east.topics = orders.*
west->east.sync.group.offsets.enabled = true
east->west.emit.heartbeats.enabled = false
east.producer.compression.type = zstd
tasks.max = 3
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["convert", *map(str, words)])


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text("utf-8"))


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(PROPERTIES, "latin-1")
    return path


def schema(version: str) -> Any:
    """Strimzi's schema, in which what it does not know is wrong."""

    def close(one: Any) -> Any:
        if isinstance(one, list):
            return [close(each) for each in one]
        if not isinstance(one, dict):
            return one
        closed = {key: value if key == "oneOf" else close(value) for key, value in one.items()}
        if "properties" in one and not one.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
        return closed

    found = close(json.loads((STRIMZI / f"crd-{version}.json").read_text("utf-8")))
    found["properties"]["metadata"] = {"type": "object"}
    return found


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_a_resource_is_as_strimzis_schema_wants_it(properties: Path, tmp_path: Path, version: str) -> None:
    result = run(properties, "-o", "strimzi", "--api-version", version, "--output-dir", tmp_path / "out")
    assert result.exit_code == (1 if version == "v1" else 0), result.stderr
    (path,) = (tmp_path / "out").glob("*.yaml")
    found = read_yaml(path)
    jsonschema.validate(found, schema(version))
    text = path.read_text("utf-8") + result.output + result.stderr
    assert "geheim" not in text
    assert "versteckt" not in text
    secret = tmp_path / "out" / "secrets" / "west-user" / "password"
    assert secret.read_text() == "geheim"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert "/no/such/store.jks has to be put into the Secret west-cluster-ca-cert as ca.crt, in PEM" in result.stderr
    source = found["spec"]["mirrors"][0]["source"] if version == "v1" else found["spec"]["clusters"][0]
    assert source["authentication"] == {
        "type": "scram-sha-512",
        "username": "u",
        "passwordSecret": {"secretName": "west-user", "password": "password"},
    }
    mirror = found["spec"]["mirrors"][0]
    assert mirror["sourceConnector"]["tasksMax"] == 3
    assert mirror["topicsPattern"] == "orders.*"


def test_what_v1_cannot_say_is_said(properties: Path, tmp_path: Path) -> None:
    result = run(properties, "-o", "strimzi", "--output-dir", tmp_path / "out")
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("not converted: ")]
    assert line.endswith(": west->east: MirrorHeartbeatConnector: v1 lacks heartbeatConnector [TW-FILE-20]")


def test_connectors_refer_to_secrets_in_files(properties: Path, tmp_path: Path) -> None:
    result = run(properties, "-o", "connectors", "--output-dir", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    kinds = {f"Mirror{kind}Connector.json" for kind in ("Source", "Checkpoint", "Heartbeat")}
    assert names == {"worker.properties", "secrets", *kinds}
    config = json.loads((tmp_path / "out" / "MirrorSourceConnector.json").read_text())["config"]
    assert config["source.cluster.sasl.jaas.config"] == f"${{secrets:{tmp_path}/out/secrets/west:sasl.jaas.config}}"
    worker = (tmp_path / "out" / "worker.properties").read_text()
    assert "config.providers.secrets.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider" in worker
    assert "producer.compression.type = zstd" in worker


@pytest.mark.parametrize("form", ["strimzi", "connectors"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("west.sasl.jaas.config", JAAS.format("plain", "Plain", "geheim").replace('"u"', '"${env:USER}"')),
        ("west.sasl.jaas.config", 'x.OAuthBearerLoginModule required clientSecret=geheim clientId="${env:ID}" ;'),
        ("west.ssl.truststore.password", "geheim${env:MORE}"),
        ("east.producer.sasl.jaas.config", JAAS.format("plain", "Plain", "geheim")),
        ("west.sasl.jaas.config", JAAS.format("plain", "Plain", "pa$geheim").replace('"u"', '"${env:USER}"')),
        ("west.sasl.jaas.config", JAAS.format("plain", "Plain", 'a\\\\"geheim').replace('"u"', '"${env:USER}"')),
        ("west->east.forwarding.admin.vault.token", "geheim"),
    ],
)
def test_secrets_beside_references_are_no_clear_text_either(tmp_path: Path, form: str, key: str, value: str) -> None:
    path = tmp_path / "mm2.properties"
    providers = "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
    path.write_text(f"{PROPERTIES}{providers}{key} = {value}\n")
    result = run(path, "-o", form, "--api-version", "v1beta2", "--output-dir", tmp_path / "out")
    assert result.exit_code in {0, 1}, result.stderr
    files = [one for one in (tmp_path / "out").rglob("*") if one.is_file() and "secrets" not in one.parts]
    assert files
    for text in (result.output, result.stderr, *(one.read_text() for one in files)):
        assert "geheim" not in text
    kept = [one.read_text() for one in (tmp_path / "out" / "secrets").rglob("*") if one.is_file()]
    assert any("geheim" in one for one in kept) or form == "strimzi"


def test_nothing_is_written_over(properties: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "worker.properties").write_text("mine")
    result = run(properties, "-o", "connectors", "--output-dir", out)
    assert result.exit_code == 2
    assert "worker.properties exists; DIR is as before" in result.stderr
    assert [path.name for path in out.iterdir()] == ["worker.properties"]


def test_wrong_input_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = a, b\na->b.enabled = maybe\n")
    result = run(path, "-o", "strimzi", "--output-dir", tmp_path / "out")
    assert result.exit_code == 2
    assert "mm2.properties:2: error: a->b.enabled: 'maybe'" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-o", "properties"), "has this form already"),
        (("-o", "connectors"), "files: name a folder"),
        (("mm2.properties", "-o", "strimzi"), "a single file of this kind at a time"),
    ],
)
def test_command_lines_that_mean_nothing(properties: Path, words: tuple[str, ...], found: str) -> None:
    result = run(properties, *words)
    assert result.exit_code == 2
    assert found in " ".join(result.stderr.replace("│", " ").split())


def test_a_resource_becomes_properties(tmp_path: Path) -> None:
    result = run(STRIMZI / "migration.yaml", "-o", "properties", "--secrets", "/mnt/secrets")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "destination-cluster.offset.storage.topic = mirrormaker2-cluster-offsets" in lines
    reference = "${secrets:/mnt/secrets/admin-user-1:user.key}"
    assert f"origin-cluster.ssl.keystore.key = {reference}" in lines
    assert "origin-cluster->destination-cluster.replication.factor = 3" in lines
    not_converted = [line.partition(": ")[2] for line in result.stderr.splitlines() if line.startswith("not converted")]
    assert any(":67: spec.logging: only a resource has this" in line for line in not_converted)
    assert any(":6: spec.version: only a resource has this" in line for line in not_converted)


OLD = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: mirror
spec:
  connectCluster: west  # the new one
  clusters:
    - alias: east
      bootstrapServers: east:9092
    - alias: west
      bootstrapServers: west:9092
      config:
        group.id: mine
        offset.storage.replication.factor: 1
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector:
        pause: true
      heartbeatConnector: {}
      topicsBlacklistPattern: "x.*"
  image: some/where
"""


def test_the_newer_version_of_a_resource(tmp_path: Path) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(OLD)
    result = run(path, "-o", "strimzi", "--output-dir", tmp_path / "out")
    assert result.exit_code == 1
    assert f"not converted: {path}:20: spec.mirrors[0].heartbeatConnector: v1 lacks this connector" in result.stderr
    found = read_yaml(tmp_path / "out" / "mirror.yaml")
    jsonschema.validate(found, schema("v1"))
    assert found["spec"]["target"] == {
        "alias": "west",
        "bootstrapServers": "west:9092",
        "config": {"offset.storage.replication.factor": 1},
        "groupId": "mine",
        "configStorageTopic": "mirrormaker2-cluster-configs",
        "statusStorageTopic": "mirrormaker2-cluster-status",
        "offsetStorageTopic": "mirrormaker2-cluster-offsets",
    }
    (mirror,) = found["spec"]["mirrors"]
    assert mirror["sourceConnector"] == {"state": "paused"}
    assert mirror["topicsExcludePattern"] == "x.*"
    assert (found["spec"]["image"], found["spec"]["replicas"]) == ("some/where", 3)


def test_there_and_back_between_versions(tmp_path: Path) -> None:
    path = tmp_path / "mirror.yaml"
    path.write_text(OLD.replace("      heartbeatConnector: {}\n", ""))
    assert run(path, "-o", "strimzi", "--output-dir", tmp_path / "new").exit_code == 0
    new = tmp_path / "new" / "mirror.yaml"
    assert run(new, "-o", "strimzi", "--api-version", "v1beta2", "--output-dir", tmp_path / "old").exit_code == 0
    old = tmp_path / "old" / "mirror.yaml"
    jsonschema.validate(read_yaml(old), schema("v1beta2"))
    before, between, after = (load_resource(one) for one in (path, new, old))
    assert [one.settings for one in before.flows] == [one.settings for one in after.flows]
    assert [one.settings for one in before.flows] == [one.settings for one in between.flows]
    assert load(path).flows == load(old).flows


CONNECTOR = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "b:1",
}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_line_is_read_as_it_was_meant(key: str, value: str) -> None:
    (entry,) = parse_properties(property_line(key, value), "f")
    assert (entry.key, entry.value) == (key, value)


def test_connectors_that_differ_are_no_flow(tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "source.json", tmp_path / "checkpoint.json"
    source.write_text(json.dumps({"name": "s", "config": {**CONNECTOR, "topics": "x"}, "initial_state": "PAUSED"}))
    other = {**CONNECTOR, "connector.class": "MirrorCheckpointConnector", "topics": "y"}
    checkpoint.write_text(json.dumps({"name": "c", "config": other}, indent=1))
    result = run(source, checkpoint, "-o", "properties")
    assert result.exit_code == 1
    assert f"{checkpoint}:9: topics: it counts for the whole flow here, and s has another value" in result.stderr
    assert "s: to begin paused lacks a form in a properties file" in result.stderr
    assert "under the name 's', and looked for under 'MirrorSourceConnector'" in result.stderr
    assert "a->b.topics = x" in result.stdout.replace("\\>", ">")


def test_connectors_of_two_targets_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps({"name": "1", "config": CONNECTOR}))
    second.write_text(json.dumps({"name": "2", "config": {**CONNECTOR, "target.cluster.alias": "c"}}))
    result = run(first, second, "-o", "strimzi")
    assert result.exit_code == 2
    assert "target.cluster.alias: b, c; write a single target" in result.stderr


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("org.apache.kafka.common.config.provider.FileConfigProvider", "secrets2"),
        ("org.apache.kafka.common.config.provider.DirectoryConfigProvider", "secrets"),
    ],
)
def test_a_provider_of_the_same_name_stays_what_it_is(tmp_path: Path, provider: str, name: str) -> None:
    own = "west.ssl.key.password = ${secrets:/own/file:key}\n"
    text = f"{PROPERTIES}{own}config.providers = secrets\nconfig.providers.secrets.class = {provider}\n"
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    result = run(path, "-o", "connectors", "--output-dir", tmp_path / "out")
    assert result.exit_code in {0, 1}, result.stderr
    config = json.loads((tmp_path / "out" / "MirrorSourceConnector.json").read_text())["config"]
    assert config["source.cluster.sasl.jaas.config"].startswith(f"${{{name}:{tmp_path}/out/secrets/west:")
    assert config["source.cluster.ssl.key.password"] == "${secrets:/own/file:key}"
    worker = parse_properties((tmp_path / "out" / "worker.properties").read_text(), "worker")
    settings = {entry.key: entry.value for entry in worker}
    assert settings["config.providers.secrets.class"] == provider
    assert settings[f"config.providers.{name}.class"].endswith("DirectoryConfigProvider")
    assert set(settings["config.providers"].replace(" ", "").split(",")) == {"secrets", name}


def test_empty_aliases_stay_empty(tmp_path: Path) -> None:
    """Positions are stored under them, and names of topics have none."""
    path = tmp_path / "mm2.properties"
    empty = "replication.policy.separator =\nsource.cluster.alias =\nwest->east.target.cluster.alias =\n"
    plain = [line for line in PROPERTIES.splitlines(keepends=True) if not line.startswith(("west.s", "east.s"))]
    path.write_text("".join([*plain, empty]))
    result = run(path, "-o", "connectors", "--output-dir", tmp_path / "out")
    assert result.exit_code in {0, 1}, result.stderr
    files = [tmp_path / "out" / f"Mirror{kind}Connector.json" for kind in ("Source", "Checkpoint", "Heartbeat")]
    for file in files:
        config = json.loads(file.read_text())["config"]
        assert (config["source.cluster.alias"], config["target.cluster.alias"]) == ("", ""), file
    again = run(tmp_path / "out" / "worker.properties", *files, "-o", "properties", "--output-dir", tmp_path / "again")
    assert again.exit_code in {0, 1}, again.stderr
    before, after = (load(one).flows[0] for one in (path, tmp_path / "again" / "mm2.properties"))
    assert (after.source, after.target) == ("source", "target")
    assert after.keeps_names
    for field in ("source_name", "target_name", "positions_topic", "offset_syncs_topic", "group_id", "connector_name"):
        assert getattr(after, field) == getattr(before, field), field
    strimzi = run(path, "-o", "strimzi")
    assert strimzi.exit_code == 1
    assert "source.cluster.alias: the operator has remote topics and positions named after 'west'" in strimzi.stderr


def test_the_connectors_of_a_flow_have_one_alias(tmp_path: Path) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    first.write_text(json.dumps({"name": "s", "config": {**CONNECTOR, "source.cluster.alias": ""}}))
    other = {**CONNECTOR, "connector.class": "MirrorCheckpointConnector", "source.cluster.alias": "source"}
    second.write_text(json.dumps({"name": "c", "config": other}))
    result = run(first, second, "-o", "properties")
    assert "source->b.source.cluster.alias = " in result.stdout.replace("\\>", ">")
    assert "source.cluster.alias: a flow has a single source.cluster.alias, '' of s" in result.stderr


TRUSTING = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: m, namespace: ns}
spec:
  replicas: 1
  target:
    alias: west
    bootstrapServers: west:9092
    groupId: g
    configStorageTopic: c
    offsetStorageTopic: o
    statusStorageTopic: s
  mirrors:
    - source:
        alias: east
        bootstrapServers: east:9093
        tls: {trustedCertificates: [{secretName: ca, pattern: "*.crt"}]}
      sourceConnector: {}
      topicsPattern: orders
"""


V1BETA2 = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: m, namespace: ns}}
spec:
  connectCluster: west
  clusters:
    - {{alias: west, bootstrapServers: "west:9092"}}
    - alias: east
      bootstrapServers: east:9093
      tls: {{}}
      {}
  mirrors:
    - {{sourceCluster: east, targetCluster: west, sourceConnector: {{}}, topicsPattern: orders}}
"""


def trusting_resource(folder: Path, beside: dict[str, str] | None = None) -> Path:
    """A resource that trusts all certificates of a Secret; `beside` has entries of the Secret in the same file."""
    path = folder / "mirror.yaml"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca"}, "stringData": beside}
    path.write_text(TRUSTING + ("" if beside is None else f"---\n{json.dumps(secret)}\n"))
    return path


def test_a_pattern_of_certificates_becomes_a_reference_to_each_file(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "ca").mkdir(parents=True)
    certificates = {key: authority(key).pem for key in ("new.crt", "old.crt", "other.txt")}
    for key, text in certificates.items():
        (tmp_path / "secrets" / "ca" / key).write_text(text)
    options = ("--secrets", tmp_path / "secrets", "--output-dir", tmp_path / "out")
    result = run(trusting_resource(tmp_path), "-o", "properties", *options)
    assert result.exit_code == 0, result.stderr
    (flow,) = load(tmp_path / "out/mm2.properties").flows
    tls = flow.consumer.client.tls
    assert tls is not None
    assert tls.authorities is not None
    assert [key for key, text in certificates.items() if text in tls.authorities] == ["new.crt", "old.crt"]


def test_a_pattern_whose_files_are_unknown_is_listed_with_the_way_out(tmp_path: Path) -> None:
    result = run(trusting_resource(tmp_path), "-o", "connectors", "--output-dir", tmp_path / "out")
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("not converted: ")]
    assert "source.cluster.ssl.truststore.certificates: " in line
    assert f"the directory {tmp_path}/out/secrets/ca lacks files *.crt" in line
    assert line.endswith("give --secrets DIR with the files DIR/ca/*.crt [TW-FILE-20]")


def test_the_secrets_of_the_same_file_are_written_as_files(tmp_path: Path) -> None:
    file = trusting_resource(tmp_path, {"ca.crt": authority().pem})
    result = run(file, "-o", "properties", "--output-dir", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    written = tmp_path / "out/secrets/ca/ca.crt"
    assert written.stat().st_mode & 0o777 == 0o600
    (flow,) = load(tmp_path / "out/mm2.properties").flows
    assert flow.consumer.client.tls is not None
    # A second conversion finds the value in the directory of Secrets.
    again = run(file, "-o", "properties", "--secrets", tmp_path / "out/secrets", "--output-dir", tmp_path / "2")
    assert again.exit_code == 0, again.stderr


def test_a_secret_of_the_same_file_stays_in_its_directory(tmp_path: Path) -> None:
    file = trusting_resource(tmp_path, {"../../ca.crt": authority().pem})
    file.write_text(file.read_text().replace('pattern: "*.crt"', 'certificate: "../../ca.crt"'))
    run(file, "-o", "properties", "--output-dir", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["mm2.properties"]


def test_a_pattern_within_a_login_becomes_a_reference_to_each_file(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "ca").mkdir(parents=True)
    for key in ("a.crt", "b.crt"):
        (tmp_path / "secrets" / "ca" / key).write_text(authority(key).pem)
    login = (
        "authentication: {type: oauth, clientId: c, tokenEndpointUri: 'https://tokens/', clientSecret: {secretName: "
        "ca, key: a.crt}, tlsTrustedCertificates: [{secretName: ca, pattern: '*.crt'}]}"
    )
    file = trusting_resource(tmp_path)
    file.write_text(V1BETA2.format(login))
    result = run(file, "-o", "properties", "--secrets", tmp_path / "secrets")
    assert result.exit_code == 0, result.stderr
    (jaas,) = [entry.value for entry in parse_properties(result.stdout, "f") if entry.key == "east.sasl.jaas.config"]
    references = "\\n".join(f"${{secrets:{tmp_path}/secrets/ca:{key}}}" for key in ("a.crt", "b.crt"))
    assert f'oauth.ssl.truststore.certificates="{references}"' in jaas
