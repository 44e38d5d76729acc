"""The rights that `twinlog acls` prints are enough for a whole run of the file, and none of them is superfluous to
`--missing`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.acls import Acl, acls, create_acls
from harness.cluster import KafkaCluster, side_by_side
from harness.consume import consume
from harness.groups import commit_offsets, group_offsets
from harness.jvm.tools import run_tool
from harness.produce import numbered, produce
from harness.topics import create_topic, topic_config, topics
from harness.wait import wait_for
from tests.integration.kafka.test_rights import delete_acls
from tests.integration.mirror_process import flow_properties
from tests.integration.running import RunTwinlog, sasl_properties
from twinlog.cli.main import app

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
USER = "mirrormaker"
Clusters = tuple[KafkaCluster, KafkaCluster]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Clusters]:
    source = KafkaCluster("acls-source", heap="384m", acls=True)
    target = KafkaCluster("acls-target", heap="384m", acls=True)
    with side_by_side(source, target) as both:
        yield both


def lines_of(text: str) -> dict[str, list[str]]:
    """The commands, by the name of their cluster."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("# cluster "):
            alias = line.removeprefix("# cluster ").partition(":")[0]
        elif line.startswith("kafka-acls.sh "):
            found.setdefault(alias, []).append(line)
    return found


def rights_of(line: str) -> list[Acl]:
    """The ACLs of a command, read as Kafka's tool reads it."""
    words = shlex.split(line)
    kinds = {"--topic": "TOPIC", "--group": "GROUP", "--transactional-id": "TRANSACTIONAL_ID", "--cluster": "BROKER"}
    kind = next(word for word in words if word in kinds)
    name = "kafka-cluster" if kind == "--cluster" else words[words.index(kind) + 1]
    pattern = "PREFIXED" if "prefixed" in words else "LITERAL"
    principal = words[words.index("--allow-principal") + 1]
    operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
    spelled = ["".join(f"_{c}" if c.isupper() and n else c for n, c in enumerate(one)).upper() for one in operations]
    return [Acl(name, principal, one, resource=kinds[kind], pattern=pattern) for one in spelled]


def printed(file: Path, code: int, *options: str) -> dict[str, list[str]]:
    done = CliRunner().invoke(app, ["acls", str(file), *options], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return lines_of(done.stdout)


def own_acls(cluster: KafkaCluster) -> set[Acl]:
    """The ACLs of the test's login."""
    return {acl for acl in acls(cluster) if acl.principal == f"User:{USER}"}


@pytest.mark.scenario
def test_the_printed_rights_are_enough_and_a_missing_line_is_printed_again(guarded: Clusters, tmp_path: Path) -> None:
    source, target = guarded
    create_topic(source, "orders", 2, config={"retention.ms": "86400000"})
    create_topic(source, "secret")
    for partition in (0, 1):
        produce(source, "orders", numbered(50), partition=partition)
    commit_offsets(source, {"shop": {("orders", 0): 20}})
    create_acls(source, [Acl("orders", "User:ann", "READ")])
    settings = {
        "topics": "orders",
        "groups": "shop",
        "heartbeats.replication.enabled": "true",
        "sync.group.offsets.enabled": "true",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
    }
    text = flow_properties("north->south", *guarded, settings)
    text += "heartbeats.topic.replication.factor = 1\nnorth.offset.storage.replication.factor = 1\n"
    text += sasl_properties({"north": source, "south": target}, USER)
    file = tmp_path / "mm2.properties"
    file.write_text(f"clusters = north, south\n{text}", "utf-8")
    uses = ("--for", "run,status,verify,plan")

    lines = printed(file, 0, *uses)
    by_alias = {"north": source, "south": target}
    assert lines.keys() == by_alias.keys()
    # Kafka's own tool takes a command of each kind as it is.
    for alias, cluster in by_alias.items():
        admin = tmp_path / f"{alias}-admin.properties"
        admin.write_text(cluster.java_properties("admin"), "utf-8")
        one = {
            next(word for word in line.split() if word in ("--topic", "--group", "--cluster")): line
            for line in lines[alias]
        }
        # Another test gave rights to this login.
        for former in own_acls(cluster):
            delete_acls(cluster, former)
        for line in one.values():
            words = shlex.split(line)[1:]
            place = words.index("--command-config") + 1
            assert words[place] == admin.name
            run_tool(ACL_COMMAND, [*words[:place], admin, *words[place + 1 :]], deadline_s=240)
        wanted = {right for line in lines[alias] for right in rights_of(line)}
        create_acls(cluster, wanted)
        assert own_acls(cluster) == wanted, "the tool reads a command as this test does"

    assert printed(file, 0, *uses, "--missing") == {}
    denied_before = {cluster.name: denied(cluster) for cluster in guarded}

    run = RunTwinlog(tmp_path / "run")
    try:
        process = run("north, south", text)
        wait_for(lambda: copied(target), 300, "all is copied, and the group, settings and ACLs are there")
        # The bridge copies before the flow's first report.
        wait_for(lambda: CliRunner().invoke(app, ["status", str(file)]).exit_code == 0, 20, "the flow reports")
        done = CliRunner().invoke(app, ["plan", str(file)])
        assert done.exit_code == 0, done.output
        done = CliRunner().invoke(app, ["verify", str(file), "--master", "local[1]"])
        assert done.exit_code == 0, done.output
        assert process.terminate() == 0
        assert "lacks" not in process.log, process.log
    finally:
        run.close()
    for cluster in guarded:
        assert denied(cluster) == denied_before[cluster.name]

    for alias, cluster in by_alias.items():
        for line in (lines[alias][0], lines[alias][-1]):
            for right in rights_of(line):
                delete_acls(cluster, right)
            found = printed(file, 1, *uses, "--missing")
            reads_acls = "--cluster" not in line
            if reads_acls:
                assert found == {alias: [line]}
            create_acls(cluster, rights_of(line))
    assert printed(file, 0, *uses, "--missing") == {}


def test_a_denial_is_removed_by_the_printed_line_and_an_audit_compares_meanings(
    guarded: Clusters, tmp_path: Path
) -> None:
    source, target = guarded
    create_topic(source, "shut")
    create_topic(target, "north.shut")
    text = "clusters = north, south\n"
    text += flow_properties("north->south", *guarded, {"topics": "shut", "groups": "none"})
    text += sasl_properties({"north": source, "south": target}, USER)
    file = tmp_path / "mm2.properties"
    file.write_text(text, "utf-8")
    by_alias = {"north": source, "south": target}
    for alias, lines in printed(file, 0, "--for", "run,audit").items():
        create_acls(by_alias[alias], {right for line in lines for right in rights_of(line)})
    ask = ("--for", "run,audit", "--missing")
    assert printed(file, 0, *ask) == {}

    # An ALLOW has no effect beside these.
    denials = {
        "north": Acl("shut", f"User:{USER}", "READ", "DENY"),
        "south": Acl("north.sh", "User:*", "ALL", "DENY", pattern="PREFIXED"),
    }
    for alias, deny in denials.items():
        create_acls(by_alias[alias], [deny])
    found = printed(file, 1, *ask)
    assert {alias: len(lines) for alias, lines in found.items()} == {"north": 1, "south": 1}
    for alias, (line,) in found.items():
        admin = tmp_path / f"{alias}-admin.properties"
        admin.write_text(by_alias[alias].java_properties("admin"), "utf-8")
        words = shlex.split(line)[1:]
        assert "--remove" in words
        place = words.index("--command-config") + 1
        run_tool(ACL_COMMAND, [*words[:place], admin, *words[place + 1 :]], deadline_s=240)
    for alias, deny in denials.items():
        wait_for(lambda: deny not in acls(by_alias[alias]), 60, f"{alias} has forgotten the denial")  # noqa: B023
    assert printed(file, 0, *ask) == {}

    # The mirror's rights, ALL in place of READ, and a denial that would stop the mirror are no findings.
    create_acls(
        source,
        [Acl("shut", "User:app", "ALL"), Acl("shut", "User:bob", "READ"), Acl("shut", "User:*", "WRITE", "DENY")],
    )
    create_acls(
        target,
        [
            Acl("north.shut", "User:app", "ALL"),
            Acl("north.shut", f"User:{USER}", "WRITE"),
            Acl("north.shut", "User:eve", "WRITE"),
        ],
    )
    done = CliRunner().invoke(app, ["audit", str(file), "-o", "json"], catch_exceptions=False)
    shown = [(one["severity"], one["details"]) for one in json.loads(done.stdout)["findings"] if one["kind"] == "acl"]
    assert shown == [
        ("warning", ["ALLOW READ on topic north.shut for User:bob from *"]),
        ("note", ["ALLOW WRITE on topic north.shut for User:eve from *"]),
    ]


def copied(target: KafkaCluster) -> bool:
    there = topics(target)
    if "north.orders" not in there or len(consume(target, "north.orders")) < 100:
        return False
    return (
        topic_config(target, "north.orders").get("retention.ms") == "86400000"
        and Acl("north.orders", "User:ann", "READ") in acls(target)
        and group_offsets(target, ["shop"]).get("shop", {}).get(("north.orders", 0)) is not None
        and "north.heartbeats" in there
    )


def denied(cluster: KafkaCluster) -> list[str]:
    """The requests of the principal that the authorizer has denied, by the brokers' own logs."""
    return [
        line
        for broker in cluster.brokers.values()
        for line in broker.process.log.read_text("utf-8", "replace").splitlines()
        if f"User:{USER}" in line and "is Denied" in line
    ]
