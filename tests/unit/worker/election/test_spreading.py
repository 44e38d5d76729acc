"""When flows are handed over: after a calm, one at a time, and nobody thinks of it again while nothing changes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.virtual.clock import VirtualClock
from twinlog.worker import elected_flow as module
from twinlog.worker.elected_flow import hand_over_flows
from twinlog.worker.election.roster import ElectionRegistry
from twinlog.worker.placement.processes import FlowMembers

BOTH = {"me": True, "other": True}


class HostedFlow:
    """A flow that runs here."""

    clearing = False
    can_hand_over = True

    def __init__(self, name: str) -> None:
        self.settings: Any = SimpleNamespace(name=name)
        self.heirs: list[str] = []

    def hand_over(self, heir: str) -> None:
        self.heirs.append(heir)


@pytest.fixture
def hosted_flows() -> list[HostedFlow]:
    return [HostedFlow("1"), HostedFlow("2"), HostedFlow("3")]


@pytest.fixture
def roster(hosted_flows: list[HostedFlow]) -> ElectionRegistry:
    roster = ElectionRegistry(name="me")
    for hosted in hosted_flows:
        roster.set_members(hosted.settings.name, FlowMembers("me", BOTH))
    return roster


def handed_over(hosted_flows: list[HostedFlow]) -> int:
    return sum(len(hosted.heirs) for hosted in hosted_flows)


def test_nothing_moves_before_a_calm(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 0
    monkeypatch.setattr(module, "CALM_S", 0.0)
    hosted_flows[0].clearing = True
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 0
    hosted_flows[0].clearing = False
    for hosted in hosted_flows:
        hosted.can_hand_over = False
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 0
    for hosted in hosted_flows:
        hosted.can_hand_over = True
    roster.set_members("1", None)
    roster.set_members("1", FlowMembers("me", BOTH))
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 1


@pytest.mark.parametrize("packs", [True, False])
def test_a_flow_that_cannot_be_handed_over_holds_back_no_other(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch, *, packs: bool
) -> None:
    monkeypatch.setattr(module, "CALM_S", 0.0)
    roster.packs = packs
    if packs:
        for number in range(4):
            roster.set_members(f"theirs {number}", FlowMembers("other", BOTH))
    for count in (1, 2, 3):
        hand_over_flows(roster, hosted_flows)
        moved = [hosted for hosted in hosted_flows if hosted.heirs]
        assert len(moved) == count
        # Nothing came of it.
        for hosted in moved:
            hosted.can_hand_over = False
            roster.set_members(hosted.settings.name, FlowMembers("me", BOTH))


def test_flows_move_one_at_a_time_though_the_new_runner_is_known_later(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow]
) -> None:
    roster._clock = clock = VirtualClock(0.0)
    roster.restart_calm()
    clock.now = module.CALM_S
    hand_over_flows(roster, hosted_flows)
    (moved,) = [hosted for hosted in hosted_flows if hosted.heirs]
    # It is being ended, and then nobody has heard yet of who runs it.
    moved.can_hand_over, moved.clearing = False, True
    clock.now += 10
    hand_over_flows(roster, hosted_flows)
    moved.clearing = False
    clock.now += module.CALM_S - 0.1
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 1


def test_no_process_gives_more_than_its_share_before_the_group_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance may take longer than the calm."""
    monkeypatch.setattr(module, "CALM_S", 0.0)
    hosted_flows = [HostedFlow(str(number)) for number in range(4)]
    roster = ElectionRegistry(name="me")
    for hosted in hosted_flows:
        roster.set_members(hosted.settings.name, FlowMembers("me", BOTH))
    for _ in range(10):
        hand_over_flows(roster, hosted_flows)
        for hosted in hosted_flows:
            hosted.can_hand_over = not hosted.heirs
    assert handed_over(hosted_flows) == 2


def test_patience_begins_once_this_process_could_give_one_itself(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow]
) -> None:
    """Else two that could give nothing for long would give one in the same moment once they can."""
    roster._clock = clock = VirtualClock(0.0)
    everybody = {**BOTH, "busier": True}
    for hosted in hosted_flows:
        roster.set_members(hosted.settings.name, FlowMembers("me", everybody))
        hosted.can_hand_over = False
    for number in range(4):
        roster.set_members(f"theirs {number}", FlowMembers("busier", everybody))
    for _ in range(10):
        clock.now += module.PATIENCE_S
        hand_over_flows(roster, hosted_flows)
    hosted_flows[0].can_hand_over = True
    clock.now += module.LOOK_S
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 0
    clock.now += module.PATIENCE_S
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 1


def test_a_flow_that_cannot_be_handed_over_is_not_retried_without_pause(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    roster._clock = clock = VirtualClock(0.0)
    roster.restart_calm()
    monkeypatch.setattr(module, "CALM_S", 0.0)
    asked: list[str] = []
    really = ElectionRegistry.crews
    monkeypatch.setattr(ElectionRegistry, "crews", lambda roster: asked.append("") or really(roster))  # type: ignore[func-returns-value]
    for hosted in hosted_flows:
        hosted.can_hand_over = False
    for _ in range(100):
        hand_over_flows(roster, hosted_flows)
    assert len(asked) < 50
    # Once it can be, nothing else need change.
    hosted_flows[2].can_hand_over = True
    clock.now += module.LOOK_S
    hand_over_flows(roster, hosted_flows)
    assert hosted_flows[2].heirs == ["other"]


def test_no_process_waits_for_ever_for_one_that_has_more_to_give(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    everybody = {**BOTH, "busier": True}
    monkeypatch.setattr(module, "CALM_S", 0.0)
    monkeypatch.setattr(module, "LOOK_S", 0.0)
    for hosted in hosted_flows:
        roster.set_members(hosted.settings.name, FlowMembers("me", everybody))
    for number in range(4):
        roster.set_members(f"theirs {number}", FlowMembers("busier", everybody))
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == 0
    monkeypatch.setattr(module, "PATIENCE_S", 1e-9)
    hand_over_flows(roster, hosted_flows)
    assert [hosted.heirs for hosted in hosted_flows if hosted.heirs] == [["other"]]


def test_what_was_found_counts_until_something_changes(
    roster: ElectionRegistry, hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CALM_S", 0.0)
    asked: list[str] = []
    really = module.next_move

    def counted(crews: Any, me: str, able: Any, *, overlook: float) -> Any:
        asked.append(me)
        return really(crews, me, able, overlook=overlook)

    monkeypatch.setattr(module, "next_move", counted)
    roster.set_members("1", FlowMembers("other", BOTH))
    for _ in range(3):
        hand_over_flows(roster, hosted_flows)
    assert (len(asked), handed_over(hosted_flows)) == (2, 0)
    roster.set_members("1", FlowMembers("other", BOTH))
    hand_over_flows(roster, hosted_flows)
    assert len(asked) == 2
    # What changed while it was thought of counts as well.
    crews = roster.crews()
    roster.set_members("1", None)
    roster.mark_balanced(crews)
    assert roster.may_move
    roster.set_members("1", FlowMembers("me", BOTH))
    hand_over_flows(roster, hosted_flows)
    assert (len(asked), handed_over(hosted_flows)) == (4, 1)


@pytest.mark.parametrize("packs", [True, False])
def test_a_runner_missing_from_its_own_candidates_is_accepted(
    hosted_flows: list[HostedFlow], monkeypatch: pytest.MonkeyPatch, *, packs: bool
) -> None:
    """As by the leader of a group that is of another version."""
    monkeypatch.setattr(module, "CALM_S", 0.0)
    roster = ElectionRegistry(name="me", packs=packs)
    for hosted in hosted_flows:
        roster.set_members(hosted.settings.name, FlowMembers("me", {"other": True}))
    roster.set_members("theirs", FlowMembers("other", {"other": True}))
    hand_over_flows(roster, hosted_flows)
    assert handed_over(hosted_flows) == packs
