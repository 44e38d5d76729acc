"""The logins that may write to remote topics whose copies keep their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.mirror.topics.test_writer_fence import OWN, acl, each_way_to_write
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.mirror.topics.changes import TopicPair
from twinlog.model.acls import EVERY_TOPIC, Acl, AclOperation, AclPermissionType
from twinlog.model.topics import Topic
from twinlog.model.types import TopicName
from twinlog.ops.inventory import Inventory
from twinlog.ops.plan.flow_plan import Problem
from twinlog.ops.plan.kept_offsets import other_writers
from twinlog.settings.flow import OffsetsMode
from twinlog.settings.per_topic import PerTopic


def found(
    *acls: Acl, offsets: OffsetsMode = "identical", topics: Sequence[str] = ("t",), fence: bool = False
) -> tuple[list[Problem], list[str]]:
    settings = replace(flow("a", "b"), offsets=PerTopic(offsets), fence_writers=fence)
    pairs = [TopicPair(Topic(TopicName(name), 1), TopicName(f"a.{name}")) for name in topics]
    return other_writers(settings, pairs, Inventory("b", None, (1,), acls=acls), OWN)


def noted(*acls: Acl, offsets: OffsetsMode = "identical", topics: Sequence[str] = ("t",)) -> list[str]:
    problems, notes = found(*acls, offsets=offsets, topics=topics)
    assert problems == []
    return notes


@each_way_to_write
def test_another_login_is_named(there: Acl) -> None:
    (note,) = noted(acl(OWN), there)
    assert note.startswith("User:app may write to a.t on b, and a record of another producer holds its partition")
    assert note.endswith("kafka-acls.sh --add --deny-principal User:app --operation Write --topic a.t")


@pytest.mark.parametrize(
    "there",
    [
        [],
        [acl("User:app", AclOperation.READ)],
        [acl("User:app", name="a.other")],
        [acl("User:app"), acl("User:app", permission=AclPermissionType.DENY)],
    ],
    ids=["none", "reads", "another topic", "denied"],
)
def test_the_flow_is_the_sole_writer(there: list[Acl]) -> None:
    assert noted(acl(OWN), *there) == []


def test_translated_offsets_have_other_writers() -> None:
    assert noted(acl("User:app"), offsets="translated") == []


def test_a_right_of_everybody_is_not_denied() -> None:
    (note,) = noted(acl("User:*"))
    assert "remove the ACL of User:*" in note
    assert "--deny-principal" not in note


def test_topics_of_the_same_writers_share_a_note() -> None:
    (note,) = noted(acl("User:app", name=EVERY_TOPIC), topics=("t", "u"))
    assert note.startswith("User:app may write to a.t, a.u on b")


def test_a_topic_without_an_acl_may_be_open_to_all() -> None:
    (note,) = noted()
    assert note.startswith("a.t on b lacks an ACL: with allow.everyone.if.no.acl.found each login may write to it")


def test_unknown_acls_are_told() -> None:
    settings = replace(flow("a", "b"), offsets=PerTopic("identical"))
    pair = TopicPair(Topic(TopicName("t"), 1), TopicName("a.t"))
    problems, (note,) = other_writers(settings, [pair], Inventory("b", None, (1,)), OWN)
    assert problems == []
    assert note.startswith("the ACLs of b are unknown, or it has no authorizer: keep other producers away from a.t")


def test_a_fence_is_told() -> None:
    problems, notes = found(acl("User:app", name=EVERY_TOPIC), topics=("t", "u"), fence=True)
    assert (problems, notes) == ([], ["a run denies WRITE on a.t, a.u on b to User:app, until it ends"])


def test_what_a_fence_cannot_deny_is_a_problem() -> None:
    (problem,), notes = found(acl("User:*"), fence=True)
    assert (problem.id, notes) == ("TW-ACL-05", [])
    assert "remove the ACL of User:*" in problem.text
    settings = replace(flow("a", "b"), offsets=PerTopic("identical"), fence_writers=True)
    pair = TopicPair(Topic(TopicName("t"), 1), TopicName("a.t"))
    (problem,), notes = other_writers(settings, [pair], Inventory("b", None, (1,)), OWN)
    assert (problem.id, notes) == ("TW-ACL-05", [])
    assert problem.text.endswith("a->b.twinlog.fence.writers = true needs ACLs")
