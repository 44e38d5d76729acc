"""What is read of groups: nothing is taken for nothing that only could not be read."""

from __future__ import annotations

import pytest

from tests.unit.ops.switchover.scripted_groups import ORDERS, P0, SHOP, ScriptedGroups, facts
from twinlog.errors import ClusterError
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.retry import SWITCHOVER_GROUPS
from twinlog.model.groups import CommittedOffset
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.switchover.model import MovedGroups, MovedTopic


def seen(source: ScriptedGroups, target: ScriptedGroups) -> MovedGroups:
    return facts(source, target).read_groups([MovedTopic(ORDERS, ORDERS, 1, ORDERS)], {P0: 10}, {P0: 25}, {})


def test_a_coordinator_that_moves_is_waited_for() -> None:
    (one,) = seen(ScriptedGroups("a", 10, errors=3), ScriptedGroups("b", 30, errors=3)).offsets
    assert (one.offset, one.there, one.present) == (10, 25, 30)


@pytest.mark.parametrize("silent", ["a", "b"])
def test_offsets_that_cannot_be_read_are_not_taken_for_none(silent: str) -> None:
    source, target = (
        ScriptedGroups(name, offset, int(SWITCHOVER_GROUPS.tries) if name == silent else 0)
        for name, offset in (("a", 10), ("b", 30))
    )
    with pytest.raises(ClusterError, match=f"cluster {silent}: offsets of group shop: ") as raised:
        seen(source, target)
    assert raised.value.retriable


@pytest.mark.parametrize("silent", ["a", "b"])
def test_groups_that_cannot_be_listed_are_not_taken_for_none(silent: str) -> None:
    source, target = (
        ScriptedGroups(name, 10, listing=ClusterError(f"{name} loads") if name == silent else None)
        for name in ("a", "b")
    )
    with pytest.raises(ClusterError, match=f"{silent} loads"):
        seen(source, target)


def test_offsets_in_a_transaction_are_waited_for_and_not_taken_for_older_ones() -> None:
    source = ScriptedGroups("a", 10)
    source.in_transaction = 3
    assert len(seen(source, ScriptedGroups("b", 30)).offsets) == 1
    source.in_transaction = int(SWITCHOVER_GROUPS.tries)
    found = seen(source, ScriptedGroups("b", 30))
    assert found.offsets == ()
    assert "in a transaction that is still open; run the same command again" in found.troubles[SHOP]


def test_groups_that_are_quiet_are_not_asked_again_for_the_sake_of_one_in_a_transaction() -> None:
    source = ScriptedGroups("a", 10)
    source.others = [GroupId("quiet")]
    source.in_transaction = 3
    found = seen(source, ScriptedGroups("b", 30))
    assert {one.group for one in found.offsets} == {"shop", "quiet"}
    assert found.troubles == {}
    assert source.asked == [["quiet", "shop"], ["shop"], ["shop"], ["shop"]]


@pytest.mark.parametrize(("start", "end", "there"), [(0, 0, 0), (7, 7, 7), (0, 5, None)])
def test_a_group_begins_at_the_first_record_of_what_producers_write_to_next(
    start: int, end: int, there: int | None
) -> None:
    source, target = ScriptedGroups("a", 10), ScriptedGroups("b", 0)
    target.committed = {}
    target.log = {P0: (start, end)}
    groups = facts(source, target)
    topic = MovedTopic(ORDERS, TopicName("a.orders"), 1, ORDERS)
    found = groups.read_groups([topic], {P0: 10}, {P0: 25}, {})
    new = [one for one in found.offsets if one.target == P0]
    assert [(one.there, one.exact) for one in new] == ([] if there is None else [(there, True)])
    # Without a leader nobody knows where that is.
    target.log = {}
    assert [one for one in groups.read_groups([topic], {P0: 10}, {P0: 25}, {}).offsets if one.target == P0] == []
    target.made = 1
    (new_one,) = (one for one in groups.read_groups([topic], {P0: 10}, {P0: 25}, {}).offsets if one.target == P0)
    assert (new_one.there, new_one.exact) == (None, False)
    # What it has there already stays.
    target.committed = {P0: CommittedOffset(3, "")}
    assert [one.target.topic for one in groups.read_groups([topic], {P0: 10}, {P0: 25}, {}).offsets] == ["a.orders"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, "User:ANONYMOUS lacks READ on topic orders of b; `twinlog acls FILE --for "),
        (Code.GROUP_AUTHORIZATION_FAILED, "User:ANONYMOUS lacks READ on group shop of b; `twinlog acls FILE --for "),
        (Code.UNKNOWN_MEMBER_ID, "the group has got members on b"),
        (Code.OFFSET_METADATA_TOO_LARGE, "b answered: "),
        (999, "b answered: "),
    ],
)
def test_a_refused_commit_names_its_partition_and_the_reason(code: int, words: str) -> None:
    source, target = ScriptedGroups("a", 10), ScriptedGroups("b", 3)
    target.refuses = {SHOP: {P0: code}}
    groups = facts(source, target)
    found = groups.read_groups([MovedTopic(ORDERS, ORDERS, 1, ORDERS)], {P0: 10}, {P0: 25}, {})
    ((place, why),) = groups.commit(found.offsets).items()
    assert place == ("shop", P0)
    assert why.startswith(words)


def test_a_group_that_nobody_lists_while_its_coordinator_moves_is_not_forgotten() -> None:
    source = ScriptedGroups("a", 10, errors=2)
    source.hides = True
    moved = [MovedTopic(ORDERS, ORDERS, 1, ORDERS)]
    found = facts(source, ScriptedGroups("b", 0)).read_groups(moved, {P0: 10}, {P0: 25}, {}, [SHOP])
    assert [(one.group, one.there) for one in found.offsets] == [(SHOP, 25)]
    # One that this process has seen itself needs no journal.
    source.hides = False
    known = facts(source, ScriptedGroups("b", 0))
    known.with_members()
    source.hides = True
    assert known.read_groups(moved, {P0: 10}, {P0: 25}, {}).offsets == found.offsets
    # Gone for good it is none.
    source.committed = {}
    assert not known.read_groups(moved, {P0: 10}, {P0: 25}, {}).source_states


def test_a_group_whose_coordinator_moves_is_not_taken_for_one_without_members() -> None:
    source, target = ScriptedGroups("a", 10, errors=2), ScriptedGroups("b", 30, errors=2)
    source.state = target.state = "Stable"
    source.moves = target.moves = True
    read = facts(source, target)
    topics = [MovedTopic(ORDERS, ORDERS, 1, ORDERS)]
    found = read.read_groups(topics, {P0: 10}, {P0: 25}, {}, ["shop"])
    assert found.source_states == {"shop": "Stable"}
    assert found.target_states == {"shop": "Stable"}


def test_each_rehearsal_begins_without_the_groups_of_earlier_ones() -> None:
    source = ScriptedGroups("a", 10)
    source.others = [GroupId("deleted")]
    known = facts(source, ScriptedGroups("b", 0))
    known.with_members()
    assert known.known == {"shop", "deleted"}
    source.others = []
    known.forget_groups()
    known.with_members()
    assert known.known == {"shop"}
