"""The rights that a file needs: the resources of its topics and groups, the forms of output, and the missing rights."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from twinlog.cli.main import app
from twinlog.config import load
from twinlog.errors import ConfigError, RefusedError
from twinlog.kafka.admin.topics import DescribedCluster, find_unlisted_topics
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import TopicName
from twinlog.ops.acls import command
from twinlog.ops.acls.formats import RightsFormat, unknown_texts
from twinlog.ops.acls.missing import ClusterJudge, allowed
from twinlog.ops.acls.needs import NeededRight, lines_of, needed_rights
from twinlog.ops.acls.reference import PAGES, with_tables
from twinlog.ops.acls.resources import Resource
from twinlog.ops.acls.rights import ROWS, USES
from twinlog.settings.flow import ClientSettings, FlowSettings

DOCS = Path(__file__).parents[4] / "docs"
LOGIN = """\
{alias}.security.protocol = SASL_PLAINTEXT
{alias}.sasl.mechanism = SCRAM-SHA-512
{alias}.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{user}" password="x";
"""


def write(folder: Path, *lines: str, logins: str = "") -> Path:
    path = folder / "mm2.properties"
    text = "clusters = east, west\neast.bootstrap.servers = e:9092\nwest.bootstrap.servers = w:9092\n"
    text += "east->west.enabled = true\nwest->east.emit.heartbeats.enabled = false\n"
    path.write_text(text + logins + "".join(f"{line}\n" for line in lines), "utf-8")
    return path


def flows(folder: Path, *lines: str, logins: str = "") -> list[FlowSettings]:
    return list(load(write(folder, *lines, logins=logins)).flows)


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
    assert topics == {*wanted, syncs}
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


def right(name: str = "east.", pattern: PatternType = PatternType.PREFIXED) -> NeededRight:
    return NeededRight("west", "User:mirror", Resource(ResourceType.TOPIC, name, pattern), AclOperation.DESCRIBE)


def acl(name: str, operation: AclOperation, **more: object) -> Acl:
    fields = {"principal": "User:mirror", "permission": AclPermissionType.ALLOW, "pattern": PatternType.LITERAL, **more}
    return Acl(ResourceType.TOPIC, name, fields["principal"], "*", operation, fields["permission"], fields["pattern"])


def test_acls_give_a_right_on_all_its_resources_or_not_at_all() -> None:
    prefixed, deny = {"pattern": PatternType.PREFIXED}, {"permission": AclPermissionType.DENY}
    assert not allowed([], right())
    assert allowed([acl("east.", AclOperation.DESCRIBE, **prefixed)], right())
    assert allowed([acl("ea", AclOperation.WRITE, **prefixed)], right()), "WRITE includes DESCRIBE"
    assert allowed([acl("*", AclOperation.ALL)], right())
    assert allowed([acl("*", AclOperation.READ, principal="User:*")], right())
    assert not allowed([acl("east.", AclOperation.DESCRIBE)], right()), "a name is no prefix"
    assert not allowed([acl("east.orders", AclOperation.READ, **prefixed)], right()), "less than the prefix"
    assert not allowed([acl("*", AclOperation.CREATE)], right())
    assert not allowed([acl("*", AclOperation.ALL, principal="User:other")], right())
    everything = acl("*", AclOperation.ALL)
    assert not allowed([everything, acl("east.secret", AclOperation.DESCRIBE, **deny)], right()), "a part is denied"
    assert allowed([everything, acl("east.secret", AclOperation.READ, **deny)], right()), "DESCRIBE stays"


class Answers:
    """A cluster that answers each request with a value, or raises it."""

    def __init__(self, acls: object, cluster: frozenset[int], topics: dict[str, frozenset[int]] | None = None) -> None:
        self.client = SimpleNamespace(settings=ClientSettings(("w:9092",), sasl_username="mirror"))
        described = {
            name: DescribedTopic(Topic(TopicName(name), 1), 1, 0, operations)
            for name, operations in (topics or {}).items()
        }
        self._answers = {
            "describe_cluster": DescribedCluster((1,), cluster),
            "describe_topics": (described, {}),
            "describe_acls": acls,
        }

    def call(self, step: Any, *args: Any) -> Any:
        if step is find_unlisted_topics:
            return {}, args[-1].keys() & {"hidden"}
        answer = self._answers[step.__name__]
        if isinstance(answer, Exception):
            raise answer
        return answer


def judged(answers: Answers, *rights: NeededRight) -> list[bool | None]:
    judge = ClusterJudge(answers)
    return [judge.gives(one) for one in rights]


HIDDEN = RefusedError("lacks DESCRIBE on the cluster")
OTHER = replace(right(), principal="User:other")


def test_a_cluster_without_an_authorizer_and_a_super_user_have_every_right() -> None:
    assert judged(Answers(None, frozenset()), right(), OTHER) == [True, True]
    everything = frozenset({AclOperation.CLUSTER_ACTION})
    assert judged(Answers([], everything), right(), OTHER) == [True, False]
    cluster = replace(acl("kafka-cluster", AclOperation.ALL), resource=ResourceType.CLUSTER)
    assert judged(Answers([cluster], everything), right()) == [False], "an ACL lets an ordinary login do all of it"


def test_without_acls_the_reported_operations_decide() -> None:
    describes = frozenset({AclOperation.DESCRIBE})
    answers = Answers(HIDDEN, describes, {"east.a": describes, "east.b": describes, "other": frozenset()})
    cluster = NeededRight("west", "User:mirror", Resource(ResourceType.CLUSTER, "kafka-cluster"), AclOperation.ALTER)
    found = judged(answers, right(), right("other", PatternType.LITERAL), cluster, right("new."), OTHER)
    assert found == [True, False, False, None, None], "a topic that is missing yet, and another login, are unknown"
    literal = PatternType.LITERAL
    assert judged(answers, right("new", literal), right("hidden", literal)) == [None, False]


def test_unknown_rights_are_a_line_for_each_cluster_and_principal() -> None:
    def unknown(kind: ResourceType, name: str, *operations: AclOperation, who: str = "mirror") -> list[NeededRight]:
        return [NeededRight("west", f"User:{who}", Resource(kind, name), operation) for operation in operations]

    read, describe = AclOperation.READ, AclOperation.DESCRIBE
    topics = [one for number in range(18) for one in unknown(ResourceType.TOPIC, f"east.{number:02}", read, describe)]
    group = unknown(ResourceType.GROUP, "shop", describe)
    prefix = unknown(ResourceType.TRANSACTIONAL_ID, "mm2-", AclOperation.WRITE)
    prefix = [replace(one, resource=one.resource._replace(pattern=PatternType.PREFIXED)) for one in prefix]
    found = unknown_texts(lines_of([*topics, *group, *prefix, *unknown(ResourceType.TOPIC, "a", read, who="other")]))
    why = "the login lacks the right to read ACLs, and brokers hide its operations there; grant DESCRIBE on the cluster"
    assert [text.partition(f": {why}")[0] for text in found] == [
        (
            "unknown: READ, DESCRIBE on topics east.00, east.01, east.02, east.03, east.04 and 13 more; DESCRIBE on "
            "group shop; WRITE on transactional id mm2- (prefix) of west for User:mirror"
        ),
        "unknown: READ on topic a of west for User:other",
    ]
    end = " to it, or apply the printed lines: a right may be given twice; then run the command again"
    assert all(text.endswith(end) for text in found)


@pytest.mark.parametrize("form", list(RightsFormat))
def test_unknown_rights_are_printed_beside_the_missing_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: RightsFormat
) -> None:
    """A login that may not read ACLs lacks a right on a topic that exists; a topic to create and an id are unknown."""

    class West(Answers):
        def __init__(self, alias: str, client: ClientSettings) -> None:
            none: frozenset[int] = frozenset()
            super().__init__(HIDDEN, none, {"orders": none, "mm2-twinlog-switchover.internal": none})
            self.client.settings = client

        def connect(self, connect_s: float) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr("twinlog.kafka.admin.cluster.ClusterAdmin", West)
    logins = LOGIN.format(alias="east", user="mirror") + LOGIN.format(alias="west", user="mirror")
    file = write(tmp_path, "east->west.topics = orders, new", "east->west.groups = shop", logins=logins)
    done = CliRunner().invoke(app, ["acls", str(file), "--for", "switchover", "--missing", "-o", form.value])
    assert done.exit_code == 1
    assert "TW-ACL-04: unknown: READ, CREATE on topics heartbeats, new" in done.stderr
    if form is RightsFormat.JSON:
        lines = json.loads(done.stdout)
        unknown = {(one["cluster"], one["resource_type"], one["name"]) for one in lines if one["unknown"]}
        assert ("west", "TOPIC", "new") in unknown
        assert ("west", "TOPIC", "orders") not in unknown
        assert {(one["cluster"], one["name"]) for one in lines if one["resource_type"] == "TRANSACTIONAL_ID"} == {
            ("east", "mm2-twinlog-switchover-"),
            ("west", "mm2-twinlog-switchover-"),
        }
        return
    text = done.stdout
    if form is RightsFormat.STRIMZI:
        users = list(YAML(typ="safe").load_all(text))
        names = {acl["resource"].get("name") for user in users for acl in user["spec"]["authorization"]["acls"]}
        assert names >= {"orders", "new", "shop", "mm2-twinlog-switchover-"}
        return
    if form is RightsFormat.KAFKA_ACLS:
        missing, _, unknown_lines = text.partition("# cluster west")[2].partition("# unknown: ")
    else:
        blocks = text.split("\n\n")
        missing = "".join(one for one in blocks if not one.startswith("# unknown: "))
        unknown_lines = "".join(one for one in blocks if one.startswith("# unknown: "))
    assert "orders" in missing
    assert "mm2-twinlog-switchover-" not in missing
    assert all(name in unknown_lines for name in ("mm2-twinlog-switchover-", "new", "shop"))


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
