# ruff: noqa: E501 - a row has the whole line that the command prints
"""Mistakes that operators make, each with every line that `twinlog check` prints, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app

BASE = """\
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
east->west.topics = orders
"""
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
TLS = "east.security.protocol = SASL_SSL\n"
PLAIN = (
    TLS
    + "east.sasl.mechanism = PLAIN\neast.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule "
    'required username="u" password="{}";\n'
)
ENV = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"
THREE = (
    BASE.replace("east, west", "east, west, south")
    + "south.bootstrap.servers = south-1:9092\nsouth->west.enabled = true\nsouth->west.topics = orders\n"
)
RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: m
spec:
  replicas: 1
  connectCluster: west
  clusters:
    - alias: east
      bootstrapServers: east-1:9092
    - alias: west
      bootstrapServers: west-1:9092
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector:
        tasksMax: 2
        config:
          replication.factor: 1
      topicsPattern: orders
"""
CONNECTOR = """\
{
  "name": "s",
  "connector.class": "MirrorSourceConnector",
  "source.cluster.alias": "east",
  "topics": "orders",
}
"""
EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
MECHANISMS = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"

MISTAKES: list[tuple[str, str, list[str]]] = [
    # A key, misspelt.
    (
        "mm2.properties",
        BASE + "sync.group.offset.enabled = true\n",
        [
            "mm2.properties:6: error: sync.group.offset.enabled: unknown key; did you mean sync.group.offsets.enabled? [TW-FILE-01]",
        ],
    ),
    # An alias, misspelt.
    (
        "mm2.properties",
        BASE.replace("east->west.enabled", "esat->west.enabled"),
        [
            "mm2.properties:4: error: esat->west.enabled: unknown key; did you mean east->west.enabled? 'esat' is no cluster of this file: clusters names east, west [TW-FILE-01]",
        ],
    ),
    # => for ->.
    (
        "mm2.properties",
        BASE.replace("east->west.", "east=>west."),
        [
            "mm2.properties:4: error: east=>west.enabled: unknown key; did you mean east->west.enabled? the arrow of a flow is -> [TW-FILE-01]",
            "mm2.properties:5: error: east=>west.topics: unknown key; did you mean east->west.topics? the arrow of a flow is -> [TW-FILE-01]",
        ],
    ),
    # --> for ->.
    (
        "mm2.properties",
        BASE.replace("east->west.enabled", "east-->west.enabled"),
        [
            "mm2.properties:4: error: east-->west.enabled: unknown key; did you mean east->west.enabled? the arrow of a flow is -> [TW-FILE-01]",
        ],
    ),
    # An arrow of Unicode, with blanks.
    (
        "mm2.properties",
        BASE.replace("east->west.enabled", "east \u2192 west.enabled"),
        [
            "mm2.properties:4: error: east \u2192 west.enabled: unknown key; did you mean east->west.enabled? the arrow of a flow is -> [TW-FILE-01]",
        ],
    ),
    # Blanks around ->.
    (
        "mm2.properties",
        BASE.replace("east->west.enabled", "east -> west.enabled"),
        [
            "mm2.properties:4: error: east -> west.enabled: unknown key; did you mean east->west.enabled? a key ends at its first blank [TW-FILE-01]",
        ],
    ),
    # Brokers are missing.
    (
        "mm2.properties",
        BASE.replace("west.bootstrap.servers = west-1:9092\n", ""),
        [
            "mm2.properties: error: west.bootstrap.servers: missing; write the brokers of this cluster, for example west.bootstrap.servers = broker-1.example.com:9092 [TW-FILE-26]",
        ],
    ),
    # An open parenthesis.
    (
        "mm2.properties",
        BASE.replace("orders", "orders, payments.(x"),
        [
            "mm2.properties:5: error: east->west.topics: an unclosed parenthesis, at character 10 of 'payments.(x'; write a regular expression, for example orders.* for all names that begin with orders [TW-FILE-04]",
        ],
    ),
    # A pattern of a shell.
    (
        "mm2.properties",
        BASE.replace("orders", "orders, *.payments"),
        [
            "mm2.properties:5: error: east->west.topics: nothing that * could repeat, at character 1 of '*.payments'; write .*[.]payments, because names are matched by regular expressions, unlike a shell's patterns [TW-FILE-04]",
        ],
    ),
    # A key twice.
    (
        "mm2.properties",
        BASE + "tasks.max = 3\ntasks.max = 4\n",
        [
            "mm2.properties:7: warning: tasks.max: already written at line 6; this line counts [TW-FILE-38]",
        ],
    ),
    # Yes.
    (
        "mm2.properties",
        BASE + "sync.group.offsets.enabled = yes\n",
        [
            "mm2.properties:6: error: sync.group.offsets.enabled: 'yes' is invalid; write true [TW-FILE-22]",
        ],
    ),
    # Units of time and size.
    (
        "mm2.properties",
        BASE
        + "refresh.topics.interval.seconds = 30s\neast.consumer.fetch.max.bytes = 256MB\nwest.producer.delivery.timeout.ms = 2m\n",
        [
            "mm2.properties:6: error: refresh.topics.interval.seconds: '30s' has a unit; write 30, because this key counts seconds [TW-FILE-22]",
            "mm2.properties:7: error: east.consumer.fetch.max.bytes: '256MB' has a unit; write 268435456, because this key counts bytes [TW-FILE-22]",
            "mm2.properties:8: error: west.producer.delivery.timeout.ms: '2m' has a unit; write 120000, because this key counts milliseconds [TW-FILE-22]",
        ],
    ),
    # A fraction.
    (
        "mm2.properties",
        BASE + "refresh.topics.interval.seconds = 0.5\n",
        [
            "mm2.properties:6: error: refresh.topics.interval.seconds: '0.5' has a fraction; write seconds as a whole number of 1 or more, for example 5; a negative number turns the work off [TW-FILE-22]",
        ],
    ),
    # A key store without password.
    (
        "mm2.properties",
        BASE + "east.security.protocol = SSL\neast.ssl.keystore.location = /no/where.jks\n",
        [
            "mm2.properties:7: error: east.ssl.keystore.location: '/no/where.jks' is unreadable (no such file or directory); give a file that this process may read [TW-FILE-30]",
        ],
    ),
    # An undeclared provider.
    (
        "mm2.properties",
        BASE + PLAIN.format("${env:EAST_PASSWORD}"),
        [
            "mm2.properties:8: error: east.sasl.jaas.config: ${env:EAST_PASSWORD} stays as it is, because config.providers lacks 'env'; write config.providers = env and config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider [TW-FILE-41]",
        ],
    ),
    # A variable that is unset.
    (
        "mm2.properties",
        BASE + f"config.providers = env\nconfig.providers.env.class = {ENV}\n" + PLAIN.format("${env:EAST_PASSWORD}"),
        [
            "mm2.properties:10: error: east.sasl.jaas.config: the variable EAST_PASSWORD is unset; set it before the start: export EAST_PASSWORD=VALUE [TW-FILE-08]",
        ],
    ),
    # A provider of Vault.
    (
        "mm2.properties",
        BASE
        + "config.providers = vault\nconfig.providers.vault.class = org.example.Vault\n"
        + PLAIN.format("${vault:east:pw}"),
        [
            "mm2.properties:10: error: east.sasl.jaas.config: ${vault:...} needs the Java class org.example.Vault (config.providers.vault.class of line 7), which is unsupported here; mount the secret as a file, as Kubernetes or an agent of the store does, and write in config.providers.vault.class: org.apache.kafka.common.config.provider.DirectoryConfigProvider for ${vault:/FOLDER:FILE}, or org.apache.kafka.common.config.provider.FileConfigProvider for ${vault:/FILE:KEY} [TW-FILE-08]",
        ],
    ),
    # A byte order mark.
    (
        "mm2.properties",
        "\ufeff" + BASE,
        [
            "mm2.properties:1: warning: clusters: the file begins with a byte order mark, which is left out; MirrorMaker 2 takes it for part of a key [TW-FILE-03]",
        ],
    ),
    # Tabs in YAML.
    (
        "m.yaml",
        RESOURCE.replace("  replicas", "\treplicas"),
        [
            "m.yaml:6: error: a tab indents this line; replace it by blanks, because YAML takes only these [TW-FILE-24]",
        ],
    ),
    # A comma too many in JSON.
    (
        "s.json",
        CONNECTOR,
        [
            "s.json:5: error: broken JSON: a comma before the closing }; remove the comma [TW-FILE-24]",
        ],
    ),
    # Another version of Strimzi.
    (
        "m.yaml",
        RESOURCE.replace("v1beta2", "v1beta1"),
        [
            "m.yaml:1: error: apiVersion: 'kafka.strimzi.io/v1beta1' is invalid; write kafka.strimzi.io/v1 or kafka.strimzi.io/v1beta2 [TW-FILE-22]",
        ],
    ),
    # Fields of Strimzi, misspelt.
    (
        "m.yaml",
        RESOURCE.replace("topicsPattern", "topicPattern").replace("tasksMax: 2", "tasksMax: two"),
        [
            "m.yaml:17: error: spec.mirrors[0].sourceConnector.tasksMax: the string 'two'; write a whole number [TW-FILE-22]",
            "m.yaml:20: error: spec.mirrors[0].topicPattern: unknown field; did you mean topicsPattern? [TW-FILE-01]",
        ],
    ),
    # Two sources keep names.
    (
        "mm2.properties",
        THREE + IDENTITY,
        [
            "mm2.properties:8: error: south->west.topics: flows east->west and south->west both write orders on west, because topic names are kept (identity policy): twinlog copies a remote topic from a single source, as offsets of two sources have no order in it; write topics that differ, or leave out the settings that keep names; if the two clusters have no topic in common, write twinlog.shared.topics = first [TW-FILE-36]",
        ],
    ),
    # Two directions keep names.
    (
        "mm2.properties",
        BASE + "west->east.enabled = true\n" + IDENTITY,
        [
            "mm2.properties:6: error: west->east.enabled: flows east->west and west->east both mirror orders and keep the name (identity policy): MirrorMaker 2 would copy each record to and fro for ever, and twinlog copies these topics in neither direction; write topics that differ, for example east-.* and west-.*, or enable a single direction with west->east.enabled = false, or leave out the settings that keep names [TW-FILE-37]",
        ],
    ),
    # Blanks between topics.
    (
        "mm2.properties",
        BASE.replace("orders", "orders payments.*"),
        [
            "mm2.properties:5: error: east->west.topics: 'orders payments.*' matches no topic, because a topic name holds no blank; write commas between several topics: orders, payments.* [TW-FILE-27]",
        ],
    ),
    # Semicolons between topics.
    (
        "mm2.properties",
        BASE.replace("orders", "orders;payments"),
        [
            "mm2.properties:5: error: east->west.topics: 'orders;payments' matches no topic, because a topic name holds no semicolon; write commas between several topics: orders, payments [TW-FILE-27]",
        ],
    ),
    # Quotes around topics.
    (
        "mm2.properties",
        BASE.replace("orders", '"orders"'),
        [
            "mm2.properties:5: error: east->west.topics: '\"orders\"' matches no topic, because quotes count as part of a name; write orders [TW-FILE-27]",
        ],
    ),
    # Kerberos.
    (
        "mm2.properties",
        BASE
        + TLS
        + "east.sasl.mechanism = GSSAPI\neast.sasl.jaas.config = com.sun.security.auth.module.Krb5LoginModule required;\n",
        [
            "mm2.properties:7: error: east.sasl.mechanism: 'GSSAPI': Kerberos is unsupported; write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; the brokers need a listener for it [TW-FILE-28]",
        ],
    ),
    # IAM of Amazon MSK.
    (
        "mm2.properties",
        BASE
        + TLS
        + "east.sasl.mechanism = AWS_MSK_IAM\neast.sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required;\n",
        [
            "mm2.properties:7: error: east.sasl.mechanism: 'AWS_MSK_IAM': the Java login of Amazon MSK for IAM is unsupported; write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; on MSK either turn on SASL/SCRAM and use SCRAM-SHA-512 at port 9096, or keep IAM with OAUTHBEARER at port 9098: have aws-msk-iam-sasl-signer write its token to a file, and name this file by Strimzi's handler as docs/security.md#amazon-msk-with-iam shows [TW-FILE-28]",
        ],
    ),
    # A policy in Java.
    (
        "mm2.properties",
        BASE + "topic.filter.class = com.example.MyFilter\n",
        [
            "mm2.properties:6: error: topic.filter.class: 'com.example.MyFilter' is invalid; write org.apache.kafka.connect.mirror.DefaultTopicFilter or a class of your own in Python, as package.module:Class; Java classes are unsupported here [TW-FILE-31]",
        ],
    ),
    # No flow is on.
    (
        "mm2.properties",
        BASE.replace("east->west.enabled = true\n", ""),
        [
            "mm2.properties: error: enabled: all flows are off; write an enabled flow, for example east->west.enabled = true; for heartbeats alone write emit.heartbeats.enabled = true [TW-FILE-35]",
        ],
    ),
    # An empty file.
    (
        "mm2.properties",
        "",
        [
            "mm2.properties: error: clusters: missing; write cluster aliases, separated by commas, as in clusters = primary, secondary [TW-FILE-26]",
        ],
    ),
    # No replica.
    (
        "mm2.properties",
        BASE + "replication.factor = 0\n",
        [
            "mm2.properties:6: error: replication.factor: '0' is invalid; write a whole number of 1 or more, or -1 for the default of the brokers, for example 2 [TW-FILE-22]",
        ],
    ),
    # A Secret is missing.
    (
        "m.yaml",
        RESOURCE.replace(
            "east-1:9092\n",
            "east-1:9092\n      authentication:\n        type: plain\n        username: u\n        passwordSecret: {secretName: east, password: pw}\n",
        ),
        [
            "m.yaml:11: error: spec.clusters[0].authentication (source.cluster.sasl.jaas.config): the key 'pw' of east is missing: --secrets is unset, and variable TWINLOG_SECRET_EAST_PW is unset; give --secrets DIR with the file DIR/east/pw, or set that variable [TW-FILE-08]",
        ],
    ),
    # Http:// before a broker.
    (
        "mm2.properties",
        BASE.replace("east-1:9092", "http://east-1:9092"),
        [
            "mm2.properties:2: warning: east.bootstrap.servers: 'http://east-1:9092' is read as east-1:9092, because brokers speak Kafka's protocol instead of HTTP; write east-1:9092 [TW-FILE-03]",
        ],
    ),
    # A broker without port.
    (
        "mm2.properties",
        BASE.replace("east-1:9092", "east-1"),
        [
            "mm2.properties:2: error: east.bootstrap.servers: 'east-1' lacks a port; write host:port, for example east-1:9092 [TW-FILE-22]",
        ],
    ),
    # Semicolons between brokers.
    (
        "mm2.properties",
        BASE.replace("east-1:9092", "east-1:9092;east-2:9092"),
        [
            "mm2.properties:2: error: east.bootstrap.servers: 'east-1:9092;east-2:9092' is invalid; write commas between several brokers: east-1:9092, east-2:9092 [TW-FILE-22]",
        ],
    ),
    # A comment after a value.
    (
        "mm2.properties",
        BASE + "tasks.max = 4 # more\n",
        [
            "mm2.properties:6: warning: tasks.max: a comment after a value is part of the value in a properties file; read as '4', without '# more' [TW-FILE-03]",
        ],
    ),
    # - for _.
    (
        "mm2.properties",
        BASE + TLS.replace("SASL_SSL", "SASL-SSL"),
        [
            "mm2.properties:6: error: east.security.protocol: 'SASL-SSL' is invalid; write PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL [TW-FILE-22]",
        ],
    ),
    # A login without semicolon.
    (
        "mm2.properties",
        BASE + PLAIN.format("x").replace(";", ""),
        [
            'mm2.properties:8: error: east.sasl.jaas.config: the line lacks a semicolon at its end; write org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="..."; [TW-FILE-28]',
        ],
    ),
    # Acks = 1.
    (
        "mm2.properties",
        BASE + "west.producer.acks = 1\n",
        [
            "mm2.properties:6: warning: west.producer.acks: '1' is read as all: a position is only stored for records that all in-sync replicas have [TW-FILE-03]",
        ],
    ),
    # Words of a key turned.
    (
        "mm2.properties",
        BASE + "max.tasks = 4\n",
        [
            "mm2.properties:6: error: max.tasks: unknown key; did you mean tasks.max? [TW-FILE-01]",
        ],
    ),
    # A key from nowhere.
    (
        "mm2.properties",
        BASE + "completely.different = 4\n",
        [
            "mm2.properties:6: error: completely.different: unknown key; remove it, or write twinlog.unknown.keys = warn to ignore unknown keys [TW-FILE-01]",
        ],
    ),
]


@pytest.mark.parametrize(("name", "text", "lines"), MISTAKES, ids=lambda value: None)
def test_a_mistake_has_this_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, lines: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EAST_PASSWORD", raising=False)
    Path(name).write_text(text, "utf-8")
    found = CliRunner().invoke(app, ["check", name])
    printed = found.stderr.splitlines()
    assert printed[:-1] == lines
    errors = sum(": error: " in line for line in lines)
    warnings = len(lines) - errors
    assert printed[-1] == f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    assert found.exit_code == (1 if errors else 0)
