"""A denial that takes a right away is printed with the command that removes it, in each form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.unit.ops.acls.scripted_acls import HIDDEN, LOGIN, Answers, acl, right, write
from twinlog.cli.main import app
from twinlog.errors import RefusedError
from twinlog.mirror.topics.fence_notes import FenceOwner
from twinlog.mirror.topics.left_fences import LeftFence, LeftFences
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, TopicAcl
from twinlog.model.types import TopicName
from twinlog.ops.acls import missing
from twinlog.ops.acls.missing import ClusterJudge, missing_rights
from twinlog.ops.acls.needs import NeededRight
from twinlog.settings.client import ClientSettings

DENY = {"permission": AclPermissionType.DENY}
PREFIXED = {"pattern": PatternType.PREFIXED}
ALL = acl("*", AclOperation.ALL)
NONE: frozenset[int] = frozenset()


@pytest.fixture(autouse=True)
def fences(monkeypatch: pytest.MonkeyPatch) -> set[TopicAcl]:
    """The fences of the cluster; a test adds some."""
    found: set[TopicAcl] = set()
    monkeypatch.setattr(missing, "fences_on", lambda _: found)
    return found


def printed(found: list[Acl], *rights: NeededRight) -> tuple[list[NeededRight], list[tuple[Acl, str, bool]]]:
    lack = missing_rights(rights, ClusterJudge(Answers(found, NONE)))  # type: ignore[arg-type]
    assert lack.unknown == ()
    assert lack.blind == ()
    return list(lack.missing), [(one.acl, one.taken, one.fence) for one in lack.denials]


def test_a_denial_is_named_and_an_allow_only_if_it_lacks() -> None:
    deny = acl("east.orders", AclOperation.DESCRIBE, **DENY)
    assert printed([ALL, deny], right()) == ([], [(deny, "DESCRIBE from User:mirror", False)])
    assert printed([deny], right()) == ([right()], [(deny, "DESCRIBE from User:mirror", False)])
    everybody = acl("east", AclOperation.ALL, principal="User:*", **DENY, **PREFIXED)
    write_ = replace(right(), operation=AclOperation.WRITE)
    assert printed([ALL, everybody], right(), write_) == ([], [(everybody, "DESCRIBE, WRITE from User:mirror", False)])
    for harmless in (
        acl("west.orders", AclOperation.DESCRIBE, **DENY),
        acl("east.orders", AclOperation.READ, **DENY),
        acl("east.orders", AclOperation.DESCRIBE, principal="User:bob", **DENY),
    ):
        assert printed([ALL, harmless], right()) == ([], [])


def test_a_fence_is_left_to_twinlog(fences: set[TopicAcl], monkeypatch: pytest.MonkeyPatch) -> None:
    deny = acl("east.orders", AclOperation.DESCRIBE, principal="User:*", **DENY)
    fences.add(deny.of_topic)
    assert printed([ALL, deny], right()) == ([], [(deny, "DESCRIBE from User:mirror", True)])

    def hidden(_: object) -> set[TopicAcl]:
        raise RefusedError("lacks READ")

    monkeypatch.setattr(missing, "fences_on", hidden)
    assert printed([ALL, deny], right()) == ([], [(deny, "DESCRIBE from User:mirror", False)])


def test_a_super_user_has_no_denial_and_a_blind_login_sees_none() -> None:
    deny = acl("*", AclOperation.ALL, **DENY)
    everything = Answers([deny], frozenset({AclOperation.CLUSTER_ACTION}))
    assert missing_rights([right()], ClusterJudge(everything)).denials == ()  # type: ignore[arg-type]
    blind = missing_rights([right()], ClusterJudge(Answers(HIDDEN, NONE, {"east.a": NONE})))  # type: ignore[arg-type]
    assert (blind.missing, blind.denials, blind.blind) == ((right(),), (), ("west",))


class Guarded(Answers):
    """Both clusters allow everything, and deny some to the mirror on west."""

    hides = False

    def __init__(self, alias: str, client: ClientSettings) -> None:
        deny = [
            acl("east.orders", AclOperation.WRITE, **DENY),
            replace(acl("east.orders", AclOperation.READ, principal="User:*", **DENY), host="10.0.0.1"),
            acl("east.", AclOperation.CREATE, principal="User:*", **DENY, **PREFIXED),
        ]
        every = [replace(ALL, resource=kind) for kind in (2, 3, 4, 5)]
        every = [replace(one, name="kafka-cluster") if one.resource == 4 else one for one in every]
        hides = self.hides and alias == "west"
        super().__init__(HIDDEN if hides else [*every, *(deny if alias == "west" else [])], NONE, {"east.orders": NONE})
        self.client.settings = client
        self.alias = alias

    def connect(self, connect_s: float) -> None: ...

    def close(self) -> None: ...


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    monkeypatch.setattr("twinlog.kafka.admin.cluster.ClusterAdmin", Guarded)
    logins = LOGIN.format(alias="east", user="mirror") + LOGIN.format(alias="west", user="mirror")
    file = write(
        tmp_path,
        "east->west.topics = orders",
        "east->west.groups = shop",
        "heartbeats.replication.enabled = false",
        "emit.heartbeats.enabled = false",
        logins=logins,
    )
    done = CliRunner().invoke(app, ["acls", str(file), "--missing", *options], catch_exceptions=False)
    assert done.exit_code == 1, done.output
    return done


TOOL = (
    "kafka-acls.sh --bootstrap-server w:9092 --command-config west-admin.properties --remove --force --deny-principal"
)
COMMANDS = [
    f"{TOOL} 'User:*' --operation Create --topic east. --resource-pattern-type prefixed",
    f"{TOOL} 'User:*' --deny-host 10.0.0.1 --operation Read --topic east.orders",
    f"{TOOL} User:mirror --operation Write --topic east.orders",
]


def test_commands_remove_the_denials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run(tmp_path, monkeypatch).stdout.splitlines()
    assert [line for line in lines if line.startswith("kafka-acls.sh")] == COMMANDS
    before = lines[lines.index(COMMANDS[0]) - 1]
    assert before == (
        "# DENY CREATE on topic prefix east. for User:* from * takes CREATE from User:mirror, whatever an ALLOW gives; "
        "it concerns every login"
    )


def test_other_forms_have_the_commands_as_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, word in (("strimzi", "rule of type deny"), ("terraform", "acl_permission_type Deny")):
        text = run(tmp_path, monkeypatch, "-o", form).stdout
        assert [line for line in text.splitlines() if "kafka-acls.sh" in line] == [f"# {one}" for one in COMMANDS]
        assert text.count(word) == len(COMMANDS)
        assert all(line.startswith("#") for line in text.splitlines())
    assert list(YAML(typ="safe").load_all(run(tmp_path, monkeypatch, "-o", "strimzi").stdout)) in ([], [None])
    found = json.loads(run(tmp_path, monkeypatch, "-o", "json").stdout)
    assert [(one["principal"], one["host"], one["operations"], one["change"]) for one in found] == [
        ("User:*", "*", ["CREATE"], "remove"),
        ("User:*", "10.0.0.1", ["READ"], "remove"),
        ("User:mirror", "*", ["WRITE"], "remove"),
    ]
    assert {one["permission"] for one in found} == {"DENY"}


def test_the_command_of_a_fence_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fences: set[TopicAcl]
) -> None:
    fences.add(acl("east.orders", AclOperation.WRITE, **DENY).of_topic)
    text = run(tmp_path, monkeypatch).stdout
    assert COMMANDS[2] not in text
    assert "# DENY WRITE on topic east.orders for User:mirror from * is a fence, which twinlog itself removes" in text


def test_the_fence_that_a_flow_has_left_is_removed_by_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fences: set[TopicAcl]
) -> None:
    mine = acl("east.orders", AclOperation.WRITE, **DENY).of_topic
    others = replace(mine, principal="User:app", topic=TopicName("north.orders"))
    fences |= {mine, others}
    left = LeftFence(FenceOwner("north->west", "north-mm2"), (mine, others))
    monkeypatch.setattr(LeftFences, "find", lambda fences: [left] if fences._cluster.alias == "west" else [])
    lines = run(tmp_path, monkeypatch).stdout.splitlines()
    assert [line for line in lines if line.startswith("kafka-acls.sh")] == [
        *COMMANDS[:2],
        COMMANDS[2],
        f"{TOOL} User:app --operation Write --topic north.orders",
    ]
    reason = "# DENY WRITE on topic north.orders for User:app from * is of the fence of north->west, and no process of"
    assert any(line.startswith(reason) for line in lines)


def test_a_login_that_sees_no_acls_is_told_to_ask_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guarded, "hides", True)
    done = run(tmp_path, monkeypatch, "--for", "verify")
    assert "--add --allow-principal User:mirror" in done.stdout
    warnings = [line for line in done.stderr.splitlines() if "TW-ACL-04" in line]
    assert warnings
    assert all("run the command again" in line for line in warnings), warnings
