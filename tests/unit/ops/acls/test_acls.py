"""The rights that a file needs: the resources of its topics and groups, the forms of output, and the missing rights."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.unit.ops.acls.scripted_acls import LOGIN, flows, write
from twinlog.cli.main import app
from twinlog.config import load
from twinlog.errors import ConfigError
from twinlog.ops.acls import command
from twinlog.ops.acls.needs import ROWS, NeededRight, lines_of, needed_rights
from twinlog.ops.acls.reference import PAGES, with_tables
from twinlog.ops.acls.rights import USES

DOCS = Path(__file__).parents[4] / "docs"


def rights(found: list[NeededRight], cluster: str) -> set[tuple[str, str, str, str]]:
    return {
        (one.resource.kind.name, one.resource.name, one.resource.pattern.name, one.operation.name)
        for one in found
        if one.cluster == cluster
    }


@pytest.mark.parametrize(
    ("topics", "read"),
    [
        # READ on every topic includes them.
        (".*", False),
        ("orders, west[.]stock", True),
        ("we.*", True),
        ("orders, stock.*", False),
        # A canary has each topic as an exact pattern.
        ("orders[.]eu", False),
    ],
)
def test_positions_of_the_flow_back_are_read_only_if_topics_match_copies_of_the_target(
    tmp_path: Path, topics: str, read: bool
) -> None:
    found = rights(needed_rights(flows(tmp_path, f"topics = {topics}"), ["run"]), "east")
    names = {name for _, name, _, _ in found if "offsets.west" in name and "syncs" not in name}
    assert names == ({"mm2-offsets.west.internal", "mm2-twinlog-offsets.west.internal"} if read else set())


def test_names_and_prefixes_of_the_file_become_names_and_prefixes_of_rights(tmp_path: Path) -> None:
    found = needed_rights(
        flows(tmp_path, "topics = orders, pay.*, log\\\\.v[12]", "groups = shop, g-.*"), ["verify", "groups"]
    )
    here, there = rights(found, "east"), rights(found, "west")
    topics = {(name, pattern) for kind, name, pattern, operation in here if (kind, operation) == ("TOPIC", "READ")}
    syncs = ("mm2-offset-syncs.west.internal", "LITERAL")
    wanted = {("orders", "LITERAL"), ("pay", "PREFIXED"), ("log.v", "PREFIXED"), ("heartbeats", "LITERAL")}
    # A switchover back may have moved groups there.
    assert topics == {*wanted, syncs, ("mm2-twinlog-switchover.internal", "LITERAL")}
    copies = {(name, pattern) for kind, name, pattern, operation in there if (kind, operation) == ("TOPIC", "READ")}
    assert {(f"east.{name}", pattern) for name, pattern in wanted} <= copies
    assert {(name, pattern) for kind, name, pattern, _ in here if kind == "GROUP"} == {
        ("shop", "LITERAL"),
        ("g-", "PREFIXED"),
    }
    assert not any(operation in ("WRITE", "CREATE", "ALTER") for *_, operation in here | there), "both only read"


def test_every_name_is_a_star_on_the_source_and_the_aliass_prefix_on_the_target(tmp_path: Path) -> None:
    found = needed_rights(flows(tmp_path), ["run"])
    assert ("TOPIC", "*", "LITERAL", "READ") in rights(found, "east")
    assert ("TOPIC", "east.", "PREFIXED", "WRITE") in rights(found, "west")
    kept = needed_rights(
        flows(tmp_path, "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"), ["run"]
    )
    assert ("TOPIC", "*", "LITERAL", "WRITE") in rights(kept, "west")


def test_a_switchover_reads_whether_producers_may_write_on_the_target(tmp_path: Path) -> None:
    found = rights(needed_rights(flows(tmp_path), ["switchover"]), "west")
    operations = {operation for kind, *_, operation in found if kind == "CLUSTER"}
    assert operations == {"DESCRIBE", "DESCRIBE_CONFIGS"}


def test_a_replay_writes_to_topics_of_its_own(tmp_path: Path) -> None:
    found = rights(needed_rights(flows(tmp_path, "topics = orders, pay.*"), ["replay"]), "west")
    written = {(name, pattern) for _, name, pattern, operation in found if operation == "WRITE"}
    assert {("east.orders.replay", "LITERAL"), ("east.pay", "PREFIXED")} <= written
    assert ("east.orders", "LITERAL") not in written


def test_a_canary_report_needs_the_rights_of_an_audit_and_of_the_canary(tmp_path: Path) -> None:
    """The page of the canary says so: the report verifies both copies, and reads groups, progress and exact maps."""
    file = write(tmp_path, "topics = orders", "groups = shop")
    wrote = CliRunner().invoke(app, ["canary", str(file), "--topic", "orders", "--output-dir", str(tmp_path / "c")])
    assert wrote.exit_code == 0, wrote.output
    mm2, canary = load(file).flows, load(tmp_path / "c" / "canary.properties").flows
    audit, run = needed_rights(mm2, ["audit"]), needed_rights(canary, ["run"])
    on_target = rights(audit, "west") | rights(run, "west")
    of_mm2 = needed_rights(mm2, ["audit", "verify", "status", "groups"])
    of_canary = needed_rights(canary, ["run", "verify", "status", "translate"])
    assert rights(of_mm2, "east") <= rights(audit, "east")
    assert rights(of_canary, "east-canary") <= rights(run, "east-canary")
    assert rights(of_mm2, "west") | rights(of_canary, "west") <= on_target
    assert not rights(of_canary, "west") <= rights(run, "west"), "the canary's own rights are too few"


def test_switches_of_the_file_take_rights_away(tmp_path: Path) -> None:
    everything = rights(needed_rights(flows(tmp_path), ["run"]), "west")
    assert ("CLUSTER", "kafka-cluster", "LITERAL", "ALTER") in everything
    assert ("GROUP", "*", "LITERAL", "READ") not in everything
    assert not any(kind == "TRANSACTIONAL_ID" for kind, *_ in everything)
    less = rights(
        needed_rights(
            flows(
                tmp_path,
                "sync.topic.acls.enabled = false",
                "sync.group.offsets.enabled = true",
                "west.exactly.once.source.support = enabled",
            ),
            ["run"],
        ),
        "west",
    )
    assert not any(kind == "CLUSTER" for kind, *_ in less)
    assert ("GROUP", "*", "LITERAL", "READ") in less
    assert ("TRANSACTIONAL_ID", "east-mm2-MirrorSourceConnector-", "PREFIXED", "WRITE") in less


def test_a_group_of_its_own_needs_to_see_the_group_of_mirror_maker_2(tmp_path: Path) -> None:
    seen = ("GROUP", "east-mm2", "LITERAL", "DESCRIBE")
    assert seen not in rights(needed_rights(flows(tmp_path), ["run"]), "west")
    own = rights(needed_rights(flows(tmp_path, "west.group.id = east-mm2-twinlog"), ["run"]), "west")
    assert {seen, ("GROUP", "east-mm2-twinlog", "LITERAL", "READ")} <= set(own)


def test_a_right_that_another_right_includes_is_left_out(tmp_path: Path) -> None:
    found = needed_rights(flows(tmp_path), ["run", "status"])
    assert ("TOPIC", "*", "LITERAL", "DESCRIBE") not in rights(found, "east"), "READ includes DESCRIBE"
    assert ("TOPIC", "mm2-", "PREFIXED", "DESCRIBE_CONFIGS") not in rights(found, "west"), "ALTER_CONFIGS includes it"
    alone = needed_rights(flows(tmp_path), ["status"])
    assert ("TOPIC", "*", "LITERAL", "DESCRIBE") in rights(alone, "east")


def test_each_login_has_rights_of_its_own(tmp_path: Path) -> None:
    logins = LOGIN.format(alias="west", user="admin") + LOGIN.format(alias="west.producer", user="writer")
    found = needed_rights(flows(tmp_path, logins=logins), ["run"])
    writer = {one.operation.name for one in found if one.principal == "User:writer" and one.resource.name == "east."}
    admin = {one.operation.name for one in found if one.principal == "User:admin" and one.resource.name == "east."}
    assert writer == {"WRITE", "READ"}
    assert admin == {"READ", "CREATE", "ALTER", "ALTER_CONFIGS"}
    named = needed_rights(flows(tmp_path, logins=logins), ["run"], principals={"west": "User:one"})
    assert {one.principal for one in named if one.cluster == "west"} == {"User:one"}


def test_a_token_without_a_known_user_needs_a_name(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c", "utf-8")
    logins = (
        "west.security.protocol = SASL_PLAINTEXT\nwest.sasl.mechanism = OAUTHBEARER\n"
        f"west.sasl.oauthbearer.token.endpoint.url = file://{tmp_path}/token\n"
        "west.sasl.jaas.config = org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )
    with pytest.raises(ConfigError, match="--principal west=User:NAME"):
        needed_rights(flows(tmp_path, logins=logins), ["run"])


def test_commands_give_exactly_the_rights(tmp_path: Path) -> None:
    file = write(tmp_path, "topics = orders", logins=LOGIN.format(alias="west", user="mirror"))
    done = CliRunner().invoke(app, ["acls", str(file), "--for", "run", "--for", "verify,audit"])
    assert done.exit_code == 0, done.output
    given = set()
    for line in done.stdout.splitlines():
        if not line.startswith("kafka-acls.sh"):
            continue
        words = shlex.split(line)
        assert ("--command-config" in words) == ("w:9092" in words)
        kind = next(word for word in words if word in ("--topic", "--group", "--cluster", "--transactional-id"))
        name = "kafka-cluster" if kind == "--cluster" else words[words.index(kind) + 1]
        pattern = "PREFIXED" if "prefixed" in words else "LITERAL"
        for at, word in enumerate(words):
            if word == "--operation":
                given.add((words[words.index("--bootstrap-server") + 1][0], kind[2:], name, pattern, words[at + 1]))
    wanted = {
        (
            one.cluster[0],
            one.resource.kind.name.lower().replace("_", "-"),
            one.resource.name,
            one.resource.pattern.name,
            one.operation.name.title().replace("_", ""),
        )
        for one in needed_rights(list(load(file).flows), ["run", "verify", "audit"])
    }
    assert given == wanted


def test_strimzi_and_terraform_and_json_have_the_same_rights(tmp_path: Path) -> None:
    file = write(tmp_path, logins=LOGIN.format(alias="west", user="mirror"))
    found = needed_rights(list(load(file).flows), ["run"])

    def text(form: str) -> str:
        done = CliRunner().invoke(app, ["acls", str(file), "-o", form], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    users = list(YAML(typ="safe").load_all(text("strimzi")))
    assert [(one["metadata"]["labels"]["strimzi.io/cluster"], one["metadata"]["name"]) for one in users] == [
        ("east", "ANONYMOUS"),
        ("west", "mirror"),
    ]
    assert users[1]["spec"]["authentication"] == {"type": "scram-sha-512"}
    rules = [rule for one in users for rule in one["spec"]["authorization"]["acls"]]
    assert sum(len(rule["operations"]) for rule in rules) == len(found)
    assert {"type": "topic", "name": "east.", "patternType": "prefix"} in [rule["resource"] for rule in rules]
    blocks = text("terraform").split("\n\n")
    assert len(blocks) == len(found)
    assert sum('resource_type                = "Cluster"' in block for block in blocks) == 2
    objects = json.loads(text("json"))
    assert sum(len(one["operations"]) for one in objects) == len(found)
    assert len(objects) == len(lines_of(found))
    assert all(one["why"] for one in objects)


def test_every_row_has_commands_that_exist() -> None:
    assert {use for row in ROWS for use in row.uses} == set(USES)
    assert ", ".join(USES) == command.USES_HELP


@pytest.mark.parametrize("name", PAGES)
def test_the_documents_have_the_rows_of_the_table(name: str) -> None:
    page = (DOCS / name).read_text("utf-8")
    assert "<!-- rights " in page
    assert with_tables(page) == page, "run `make reference`"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--for", "fly"], "fly is no command whose rights are known; write some of run, plan"),
        (["--principal", "mirror"], "'mirror': expected ALIAS=User:NAME, as in east=User:mirror"),
        (["--principal", "north=User:x"], "north is no cluster of these flows; they have east, west"),
    ],
)
def test_wrong_options_name_the_right_form(tmp_path: Path, options: list[str], text: str) -> None:
    done = CliRunner().invoke(app, ["acls", str(write(tmp_path)), *options], env={"COLUMNS": "400"})
    assert done.exit_code == 2
    assert text in done.output
