"""The rehearsal of a switchover: the calls of its steps, and their duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.errors import ClusterError
from twinlog.errors.message_ids import with_id
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.groups.group_moves import COMMITTED
from twinlog.mirror.groups.safe_move import Obstacle
from twinlog.model.acls import PatternType, TopicAcl
from twinlog.model.amounts import counted
from twinlog.ops.switchover.fencing import FIRST_RATE, acls_of, quotas_of
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.machine import require_same
from twinlog.ops.switchover.model import (
    Data,
    FenceMethod,
    MovedGroups,
    NotReadyError,
    Preflight,
    SwitchoverKind,
    SwitchoverOptions,
)
from twinlog.ops.switchover.repeat import count_words, counts_uncopied, lacks_end, lacks_fence, only_repeats_groups
from twinlog.ops.switchover.steps.group_step import (
    MOVED,
    GroupOffsetDecision,
    foresee_groups,
    judge,
    read_lost_groups,
    read_moving_groups,
    verdict_of,
)
from twinlog.ops.switchover.steps.step import StepContext, SwitchoverClusters, topics_data
from twinlog.ops.switchover.steps.steps import ORDER, STEPS
from twinlog.ops.switchover.steps.waiting import LOST_STILL_S, PROOF_NEAR_S, QUIET_S, STILL_S

STORED_S = 1.0
"""Until the position of a partition that became idle is stored."""

REPORTED_S = 1.0
"""Until the end of the proof is reported."""

REQUEST_S = 0.3
GROUPS_PER_S = 300.0

CONNECT = "connect"
FENCED = frozenset({CONNECT, "fence", "settle", "drain", "groups", "prove", "seed", "open"})
"""While these last producers wait."""


@dataclass(frozen=True, slots=True)
class RehearsedStep:
    """A step: its calls, in words, and its duration in seconds, None when unknown.

    A run reports the `obstacle`, leaves out the calls, and continues with the next step.
    """

    step: str
    words: str
    calls: tuple[str, ...]
    seconds: float | None
    obstacle: str = ""


def opens_target(steps: Sequence[RehearsedStep]) -> bool:
    """Whether producers wait during these steps, until the target is open."""
    return any(one.step == "open" for one in steps)


def unavailable_s(steps: Sequence[RehearsedStep]) -> float | None:
    """Seconds for which producers would wait; None when unknown."""
    if not opens_target(steps):
        return 0.0
    found = [one.seconds for one in steps if one.step in FENCED]
    return None if None in found else sum(second or 0.0 for second in found)


def rehearse(
    world: SwitchoverClusters, options: SwitchoverOptions, entries: JournalEntries
) -> tuple[Preflight, list[RehearsedStep]]:
    """Read everything that the steps would read, and list the calls of each step. Raises the errors of the steps.

    `entries` is the journal: after a switchover that is done, the same command may only commit the offsets of groups.
    """
    if only_repeats_groups(entries, world, options.kind):
        return _rehearse_again(world, options, entries)
    preflight = world.preflight(options)
    if preflight.problems:
        return preflight, []
    steps = _wait_of(world, options)
    for name in ORDER[options.kind]:
        calls, seconds = _calls(world, options, preflight, name)
        steps.append(RehearsedStep(name, STEPS[name].describe(options.kind), tuple(calls), seconds))
    return preflight, steps


def _wait_of(world: SwitchoverClusters, options: SwitchoverOptions) -> list[RehearsedStep]:
    """The wait of an emergency for a silent source."""
    if options.kind is not SwitchoverKind.EMERGENCY or world.source_answers:
        return []
    return [RehearsedStep(CONNECT, f"wait for an answer of {world.ends.source}", (), COMMAND_CONNECT_S)]


def _rehearse_again(
    world: SwitchoverClusters, options: SwitchoverOptions, entries: JournalEntries
) -> tuple[Preflight, list[RehearsedStep]]:
    """The steps of a command that repeats a switchover: the groups, and the fence that an emergency left out."""
    require_same(entries, world, "from", "to", "topics")
    lost = options.kind is SwitchoverKind.EMERGENCY
    of_run = options if lost or entries.run is None else entries.run.options
    context = StepContext(world, of_run, entries)
    fences = lost and lacks_fence(entries, world)
    preflight = Preflight(context.topics, (fences and options.fence) or context.fence)
    steps = _wait_of(world, options)
    if fences:
        steps.append(_returned_fence(context, preflight))
    calls, seconds = _commits(world, read_moving_groups(context))
    steps.append(RehearsedStep("groups", STEPS["groups"].words, tuple(calls), seconds))
    if lacks_end(entries, world):
        steps.append(RehearsedStep("close", STEPS["close"].words, (), REQUEST_S))
    if entries.run is not None and counts_uncopied(entries.run, world):
        steps.append(RehearsedStep("prove", count_words(world), (), REQUEST_S))
    return preflight, steps


def _returned_fence(context: StepContext, preflight: Preflight) -> RehearsedStep:
    """The fence on a source that was silent: a begun fence is completed, and a begun fence of another method lifted
    before."""
    world, words = context.world, STEPS["fence"].words
    begun = context.entries.begun("fence") or {}
    half_raised = begun if "left" not in begun else {}
    try:
        if half_raised and preflight.fence is context.fence:
            calls, seconds = _raise_calls(world, preflight.fence, half_raised)
        else:
            plan = world.plan_fence(preflight.fence, preflight.topics)
            # The plan of now includes the quotas of the half-raised fence, which a run lifts before.
            own = [one for one in plan.get("set", []) if one not in half_raised.get("set", [])]
            calls, seconds = _raise_calls(world, preflight.fence, {**plan, "set": own})
            calls = [*_lift_calls(world, half_raised), *calls]
    except (ClusterError, NotReadyError) as error:
        obstacle = f"producers on {world.ends.source} are unfenced: {error}"
        return RehearsedStep("fence", words, tuple(_lift_calls(world, half_raised)), REQUEST_S, obstacle)
    return RehearsedStep("fence", words, tuple(calls), seconds)


def _calls(
    world: SwitchoverClusters, options: SwitchoverOptions, preflight: Preflight, step: str
) -> tuple[list[str], float | None]:
    ends = world.ends
    lost = options.kind is SwitchoverKind.EMERGENCY
    if step == "topics":
        plan = world.missing_topics(preflight.topics)["topics"]
        made = [
            f"create topic {name} on {ends.target} with {counted(one['partitions'], 'partition')}"
            for name, one in plan.items()
        ]
        return made, REQUEST_S * (1 + len(made) / 100)
    if step == "fence":
        return ([], 0.0) if lost else _fence_calls(world, preflight)
    if step == "settle":
        return [], LOST_STILL_S if lost else QUIET_S if preflight.fence is FenceMethod.ACL else STILL_S[preflight.fence]
    if step == "watch":
        return [], STILL_S[preflight.fence] if preflight.fence is FenceMethod.ACL else REQUEST_S
    if step == "catch-up":
        return [], _copying_s(max(0, preflight.lag - options.near), preflight.rate)
    if step == "drain":
        copying = _copying_s(min(preflight.lag, options.near), preflight.rate)
        calls = []
        proof_s = 0.0
        if preflight.proven:
            topics = counted(len(preflight.proven), "topic")
            calls.append(f"wait for the proof of equality of {topics}, {preflight.proof_lag_s:.1f} s behind now")
            proof_s = REPORTED_S + min(preflight.proof_lag_s, PROOF_NEAR_S)
        return calls, None if copying is None else copying + STORED_S + proof_s
    if step == "groups":
        return _group_calls(world, options, preflight)
    if step == "seed":
        kept = sum(topic.partitions for topic in preflight.topics if topic.keeps_name)
        where = f"{counted(kept, 'partition')} on {ends.source}"
        text = f"store the positions of flow {ends.target}->{ends.source} for {where}"
        return ([text] if kept else []), REQUEST_S
    return [], REQUEST_S


def _copying_s(records: int, rate: float | None) -> float | None:
    if not records:
        return 0.0
    return None if not rate else records / rate


def _fence_calls(world: SwitchoverClusters, preflight: Preflight) -> tuple[list[str], float]:
    return _raise_calls(world, preflight.fence, world.plan_fence(preflight.fence, preflight.topics))


def _raise_calls(world: SwitchoverClusters, fence: FenceMethod, plan: Data) -> tuple[list[str], float]:
    name = world.ends.source
    calls = [f"create ACL on {name}: {_acl(acl)}" for acl in acls_of(plan.get("add", []))]
    calls += [f"set on {name}: {quota}" for quota in quotas_of(plan.get("set", []))]
    if fence is FenceMethod.QUOTA:
        calls.insert(0, f"the same on {name} with {FIRST_RATE:g} for two seconds, for producers that are fast")
    return calls, REQUEST_S * (1 + len(calls) / 500) + (2.0 if fence is FenceMethod.QUOTA else 0.0)


def _lift_calls(world: SwitchoverClusters, plan: Data) -> list[str]:
    name = world.ends.source
    calls = [f"delete ACL on {name}: {_acl(acl)}" for acl in acls_of(plan.get("remove", []))]
    return calls + [f"restore on {name}: {quota}" for quota in quotas_of(plan.get("restore", []))]


def _acl(acl: TopicAcl) -> str:
    return f"{acl} (prefix)" if acl.pattern == PatternType.PREFIXED else str(acl)


def _group_calls(
    world: SwitchoverClusters, options: SwitchoverOptions, preflight: Preflight
) -> tuple[list[str], float]:
    if options.kind is SwitchoverKind.EMERGENCY:
        copied = {where: one.source for where, one in world.read_copied_positions().items()}
        seen = read_lost_groups(world, preflight.topics, copied, preflight.groups)
    else:
        # The check of a large cluster takes seconds for its groups.
        seen = preflight.foreseen or foresee_groups(world, preflight.topics, preflight.groups)
    return _commits(world, seen)


def _commits(world: SwitchoverClusters, seen: MovedGroups) -> tuple[list[str], float]:
    calls = [_group_call(world, one, seen) for one in judge(seen)]
    return calls, REQUEST_S + len(seen.source_states) / GROUPS_PER_S


def _group_call(world: SwitchoverClusters, one: GroupOffsetDecision, seen: MovedGroups) -> str:
    """The commit of an offset, or the reason against it, with the records that the group would skip or repeat."""
    committed = one.result == COMMITTED
    call = f"group {one.offset.group}, {one.offset.target}: {one.result}"
    if committed:
        call = f"commit for group {one.offset.group} on {world.ends.target}: {one.offset.target} at {one.offset.there}"
    about_place = {Obstacle.TARGET_AHEAD, Obstacle.TARGET_BEHIND, Obstacle.NOT_EXACT, Obstacle.NOT_TRANSLATED}
    about_place |= {Obstacle.SOURCE_SILENT, Obstacle.BEFORE_START, Obstacle.BEYOND_END}
    reasons = () if one.result == MOVED else verdict_of(one, seen, committed=committed).reasons
    return "; ".join([call, *(reason.text for reason in reasons if reason.obstacle in about_place)])


def rehearsal_json(
    world: SwitchoverClusters, preflight: Preflight, steps: Sequence[RehearsedStep], stands: str
) -> Data:
    """The rehearsal as values of JSON; `stands` is the state of the last switchover in this direction, in words."""
    return {
        "from": world.ends.source,
        "to": world.ends.target,
        "stands": stands,
        "problems": [with_id(problem, NotReadyError.kind_id) for problem in preflight.problems],
        "notes": [note.text for note in preflight.notes],
        "fence": preflight.fence,
        "lag": preflight.lag,
        "records_per_second": preflight.rate,
        "topics": topics_data(preflight.topics),
        "proven": list(preflight.proven),
        "proof_lag_s": preflight.proof_lag_s if preflight.proven else None,
        "seconds_without_producers": unavailable_s(steps),
        "steps": [
            {"step": one.step, "does": one.words, "calls": list(one.calls), "seconds": one.seconds}
            | ({"obstacle": with_id(one.obstacle, "TW-SWITCH-20")} if one.obstacle else {})
            for one in steps
        ],
    }
