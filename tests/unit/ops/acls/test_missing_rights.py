"""The rights that a cluster lacks, by its ACLs or by the operations that brokers report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from tests.unit.ops.acls.scripted_acls import HIDDEN, LOGIN, Answers, acl, right, write
from twinlog.cli.main import app
from twinlog.model.acls import AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.ops.acls.formats import RightsFormat, unknown_texts
from twinlog.ops.acls.missing import ClusterJudge, allowed
from twinlog.ops.acls.needs import NeededRight, lines_of
from twinlog.ops.acls.resources import Resource
from twinlog.settings.client import ClientSettings

OTHER = replace(right(), principal="User:other")


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


def judged(answers: Answers, *rights: NeededRight) -> list[bool | None]:
    judge = ClusterJudge(answers)
    return [judge.gives(one) for one in rights]


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
