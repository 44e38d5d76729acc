"""What the facts of both clusters mean before a switchover."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import RefusedError
from twinlog.mirror.topics.journal_keys import StepPhase, SwitchoverState
from twinlog.mirror.topology.filters import DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.mirror.topology.topology import Topology
from twinlog.model.acls import AclOperation
from twinlog.model.groups import GroupListing
from twinlog.model.topics import Topic
from twinlog.model.types import Alias, GroupId, TopicName, TopicPartition
from twinlog.ops.switchover.flow_process import has_members
from twinlog.ops.switchover.journal import JournalEntries, JournalEntry, SwitchoverRun
from twinlog.ops.switchover.model import (
    CopiedPosition,
    FenceMethod,
    MovedTopic,
    SourceEnd,
    SwitchoverDirection,
    SwitchoverKind,
    SwitchoverOptions,
)
from twinlog.ops.switchover.moving_topics import moved_topics
from twinlog.ops.switchover.preflight import judge_preflight
from twinlog.ops.switchover.preflight_facts import PreflightFacts, needs_way_back

EAST, WEST, SOUTH = Alias("east"), Alias("west"), Alias("south")
ORDERS, REMOTE = TopicName("orders"), TopicName("east.orders")
P0 = TopicPartition(ORDERS, 0)
GROUP = GroupId("east-mm2")
GOOD = PreflightFacts(
    EAST,
    WEST,
    SwitchoverKind.PLANNED,
    (MovedTopic(ORDERS, REMOTE, 1, ORDERS),),
    {REMOTE: Topic(REMOTE, 1)},
    {P0: SourceEnd(10, 10)},
    {P0: 0},
    {P0: CopiedPosition(7, 7)},
    authorizer=True,
    operations=frozenset({AclOperation.ALTER}),
)


def problems(facts: PreflightFacts, fence: FenceMethod | None = None) -> list[str]:
    return list(judge_preflight(facts, fence).problems)


def notes(facts: PreflightFacts) -> list[str]:
    return [str(note) for note in judge_preflight(facts, None).notes]


@pytest.mark.parametrize(
    ("state", "kind", "step", "due"),
    [
        (SwitchoverState.DONE, SwitchoverKind.PLANNED, "open", True),
        (SwitchoverState.DONE, SwitchoverKind.EMERGENCY, "open", True),
        (SwitchoverState.DONE, SwitchoverKind.BACK, "open", False),
        (SwitchoverState.DONE, SwitchoverKind.PLANNED, "release", False),
        (SwitchoverState.RETURNED, SwitchoverKind.PLANNED, "open", False),
        (SwitchoverState.ABORTED, SwitchoverKind.PLANNED, "open", False),
    ],
)
def test_a_switchback_is_due_after_a_switchover_the_other_way(
    state: SwitchoverState, kind: SwitchoverKind, step: str, due: bool
) -> None:
    run = SwitchoverRun("1", SwitchoverDirection(WEST, EAST), SwitchoverOptions(kind), state, 1)
    assert needs_way_back(JournalEntries(run, {(step, StepPhase.DONE): JournalEntry(2, {})})) is due
    assert not needs_way_back(JournalEntries())


@pytest.mark.parametrize(("wave", "option"), [("", ""), ("w1", " --wave w1"), ("first half", " --wave 'first half'")])
def test_a_switchover_in_the_direction_of_a_switchback_names_it(wave: str, option: str) -> None:
    facts = replace(GOOD, way_back=SwitchoverDirection(EAST, WEST, wave))
    options = f"--from east --to west{option}"
    assert notes(facts)[0] == (
        f"switchover west->east is done, and its way back is `twinlog switchback FILE {options}`: this command begins "
        "a switchover of its own"
    )
    assert not any("switchback" in note for note in notes(GOOD))


def test_nothing_is_against_it() -> None:
    found = judge_preflight(GOOD, None)
    assert (found.fence, found.problems, found.lag) == (FenceMethod.ACL, (), 3)


@pytest.mark.parametrize(
    ("authorizer", "fence"), [(True, FenceMethod.ACL), (None, FenceMethod.ACL), (False, FenceMethod.QUOTA)]
)
def test_the_fence_is_chosen_by_the_authorizer(authorizer: bool | None, fence: FenceMethod) -> None:
    assert judge_preflight(replace(GOOD, authorizer=authorizer, operations=None), None).fence is fence


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (replace(GOOD, topics=()), "flow east->west mirrors no topic that exists on east"),
        (
            replace(GOOD, target_topics={}),
            "east.orders: missing on west, or with fewer partitions; the flow makes them",
        ),
        (
            replace(GOOD, copied={}),
            (
                "orders: nothing is copied yet, by the positions on west; MirrorMaker 2 stores these at "
                "offset.flush.interval.ms, once a minute by default"
            ),
        ),
        (
            replace(GOOD, under_way=True),
            "a switchover west->east has begun and is still incomplete; complete it, or undo it with --abort",
        ),
        (replace(GOOD, ends={}), "1 partition of east has no leader"),
        (
            replace(GOOD, hidden=(TopicName("secret"),)),
            (
                "secret: the login lacks DESCRIBE on east, so the topic would be left behind; `twinlog acls FILE "
                "--missing` prints the command that grants it; or leave the topic out of the flow"
            ),
        ),
        (
            replace(GOOD, runs=False),
            (
                "no process of flow east->west is in its group, and its positions stayed the same during the check: "
                "start the flow, and keep it running until the end"
            ),
        ),
        (replace(GOOD, runs=False, kind=SwitchoverKind.BACK), "no process of flow east->west is in its group, and"),
        (
            replace(GOOD, operations=frozenset()),
            (
                "this login lacks ALTER on cluster east, needed for --fence acl; every missing right: twinlog acls "
                "FILE --for switchover --missing"
            ),
        ),
        (
            replace(GOOD, refused_commits=("User:mirror lacks READ on group shop of west",)),
            "TW-SWITCH-20: User:mirror lacks READ on group shop of west",
        ),
        (
            replace(GOOD, kind=SwitchoverKind.BACK, earlier=False),
            "no switchover west->east is recorded as done, so there is no way back",
        ),
        (
            replace(GOOD, kind=SwitchoverKind.BACK, earlier=False, done=True),
            (
                "no switchover west->east is recorded as done, so there is no way back; east->west is done: give "
                "--from west --to east"
            ),
        ),
    ],
)
def test_what_prevents_it_is_named(facts: PreflightFacts, problem: str) -> None:
    assert any(one.startswith(problem) for one in problems(facts))


@pytest.mark.parametrize(
    ("facts", "note"),
    [
        # A process that joins its group again.
        (
            replace(GOOD, runs=False, rate=5.0),
            "no process of flow east->west is in its group: it must run until the end",
        ),
        (replace(GOOD, runs=None), "the processes of flow east->west are unknown: it must run until the end"),
        # Step `rejoin` lets the flow write where names stay.
        (
            replace(GOOD, runs=False, kind=SwitchoverKind.BACK, topics=(MovedTopic(ORDERS, ORDERS, 1, ORDERS),)),
            "no process of flow east->west is in its group: it must run until the end",
        ),
    ],
)
def test_a_flow_that_may_run_or_runs_later_prevents_nothing(facts: PreflightFacts, note: str) -> None:
    assert problems(facts) == []
    assert note in notes(facts)


@pytest.mark.parametrize(
    ("listing", "kind", "members", "runs"),
    [
        (GroupListing(GROUP, "twinlog", "Stable"), None, (), True),
        (GroupListing(GROUP, "twinlog", "Empty"), None, (), False),
        (None, None, ("a process",), True),
        (None, None, (), False),
        # The login may not describe the group.
        (None, None, None, None),
        # A Connect worker may keep its group on a third cluster.
        (None, "source", (), None),
        (GroupListing(GROUP, "connect", "Empty"), "source", (), False),
    ],
)
def test_whether_the_flow_runs_is_told_by_its_group(
    listing: GroupListing | None, kind: str | None, members: tuple[str, ...] | None, runs: bool | None
) -> None:
    def call(_step: Any, _group: GroupId) -> Any:
        if members is None:
            raise RefusedError("DESCRIBE on the group is missing")
        return SimpleNamespace(members=members)

    flow: Any = SimpleNamespace(kind=kind, group_id=GROUP)
    target: Any = SimpleNamespace(call=call, client=None)
    assert has_members(flow, target, listing) is runs


def test_an_emergency_needs_no_flow() -> None:
    assert problems(replace(GOOD, kind=SwitchoverKind.EMERGENCY, runs=False)) == []


def test_an_emergency_tells_which_topic_it_leaves_behind() -> None:
    facts = replace(GOOD, kind=SwitchoverKind.EMERGENCY, hidden=(TopicName("secret"),))
    assert problems(facts) == []
    assert any(note.startswith("secret: the login lacks DESCRIBE on east") for note in notes(facts))


def test_what_producers_will_miss_is_noted() -> None:
    facts = replace(
        GOOD,
        staying=[TopicName("audit")],
        refused={"User:ann": [ORDERS]},
        topics=(MovedTopic(ORDERS, REMOTE, 2, ORDERS),),
        target_topics={REMOTE: Topic(REMOTE, 2), ORDERS: Topic(ORDERS, 1)},
    )
    found = notes(facts)
    assert "not mirrored, so their producers are left alone: audit" in found
    refused = (
        "User:ann may write on east, and lacks WRITE on west for orders: grant it, unless it is a super user there"
    )
    assert refused in found
    assert "orders: fewer partitions on west, where producers will write, than now" in found


def test_acls_need_an_authorizer() -> None:
    facts = replace(GOOD, authorizer=False, operations=None)
    assert problems(facts, FenceMethod.ACL) == [
        "cluster east lacks an authorizer that would apply ACLs; use --fence quota"
    ]
    assert problems(facts, FenceMethod.QUOTA) == []


def test_an_old_cluster_takes_neither_acls_nor_quotas() -> None:
    facts = replace(GOOD, authorizer=False, operations=None, quotas=False)
    assert problems(facts, FenceMethod.ACL) == [
        "cluster east lacks an authorizer that would apply ACLs; use --fence none"
    ]
    (problem,) = problems(facts, FenceMethod.QUOTA)
    assert "takes no quotas over its protocol" in problem
    assert "use --fence none" in problem
    assert problems(facts, FenceMethod.NONE) == []


def test_the_way_back_waits_for_its_flow() -> None:
    assert problems(replace(GOOD, kind=SwitchoverKind.BACK, copied={}, target_topics={})) == []


def test_a_lost_source_has_no_facts() -> None:
    facts = replace(GOOD, kind=SwitchoverKind.EMERGENCY, ends={}, starts={}, source_error="gone", authorizer=None)
    assert problems(facts) == []
    assert notes(facts) == [
        "cluster east is silent, and producers there stay unfenced",
        "records of east without a copy: unknown, as the flow lacks a report: MirrorMaker 2 writes none",
    ]


def test_which_topics_move_and_what_their_producers_write_to() -> None:
    names = ["orders", "shop.orders", "south.orders", "west.orders", "heartbeats", "mm2-offsets.west.internal"]
    there = {TopicName(name): Topic(TopicName(name), 2) for name in names}
    flow = Topology(EAST, WEST, DefaultReplicationPolicy(), DefaultTopicFilter())
    assert [(one.name, one.remote, one.producers) for one in moved_topics(flow, [EAST, WEST, SOUTH], there)] == [
        ("orders", "east.orders", "orders"),
        # No cluster is called shop.
        ("shop.orders", "east.shop.orders", "shop.orders"),
        ("south.orders", "east.south.orders", ""),
    ]
    beating = {
        TopicName(name): Topic(TopicName(name), 1) for name in ("device.heartbeats", "heartbeats", "east.heartbeats")
    }
    assert [one.name for one in moved_topics(flow, [EAST, WEST, SOUTH], beating)] == ["device.heartbeats"]
    flow = Topology(EAST, WEST, IdentityReplicationPolicy(source=EAST), DefaultTopicFilter((".*orders",)))
    assert all(one.keeps_name for one in moved_topics(flow, [EAST, WEST], there))
