"""The steps of a switchover, in their order for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from twinlog.errors import ClusterError, TwinlogError
from twinlog.model.amounts import counted, shown_moment
from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition
from twinlog.ops.proven_ranges import PartitionProven
from twinlog.ops.switchover.journal import Offsets, OffsetsJson, from_json, to_json
from twinlog.ops.switchover.model import Data, NoteKind, NotReadyError, SwitchoverKind
from twinlog.ops.switchover.steps.group_step import began, sync_groups
from twinlog.ops.switchover.steps.step import (
    EarlierStep,
    Step,
    StepContext,
    notes_data,
    replace_notes,
    topics_data,
    uncopied_note,
)
from twinlog.ops.switchover.steps.waiting import catch_up, drain, find_unproven, lag, remotes, settle, watch


def check(context: StepContext) -> Data:
    """Look at both clusters. Raises NotReadyError when something prevents the switchover."""
    found = context.world.preflight(context.options)
    if found.problems:
        raise NotReadyError(found.problems)
    return {
        "topics": topics_data(found.topics),
        "fence": found.fence,
        "notes": notes_data(found.notes),
        "lag": found.lag,
        "groups": list(found.groups),
        "scope": context.world.scope(),
        "proven": list(found.proven),
    }


def _new(context: StepContext) -> list[TopicPartition]:
    """Partitions that came to the source since the pre-flight."""
    known = {topic.name: topic.partitions for topic in context.topics}
    return [
        TopicPartition(topic.name, number)
        for topic in context.world.list_moving_topics()
        for number in range(known.get(topic.name, 0), topic.partitions)
    ]


def begin_rejoin(context: StepContext) -> Data:
    """Plan the first positions of the flow back in topics that keep their names, and the fence against its writes."""
    earlier = context.world.read_earlier_journal()
    if earlier.run is None:
        raise TwinlogError("the journal of the switchover is gone")
    lost = earlier.run.options.kind is SwitchoverKind.EMERGENCY
    positions = _not_reached(context, (earlier.done("prove") or {}).get("positions", {}), lost=lost)
    tail: dict[str, Data] = {}
    if lost:
        cut = from_json((earlier.done("settle") or {}).get("cut", {}))
        for where, end in context.world.target_ends([where for where in cut if where in positions]).items():
            if end > cut[where]:
                tail.setdefault(where.topic, {})[str(where.partition)] = [cut[where], end]
    keeps = any(topic.keeps_name for topic in context.topics)
    return {
        "positions": to_json(positions),
        "fence": (context.world.read_fence() or {}) if keeps else {},
        "tail": tail,
        "lost": lost,
    }


def _not_reached(context: StepContext, positions: OffsetsJson, *, lost: bool) -> Offsets:
    """Return the positions that the flow back has yet to reach: later copies, perhaps of an undone attempt, count more.

    Of a lost cluster, reached positions are included: records that were never copied may follow there.
    """
    copied = context.world.read_copied_positions()
    return {
        where: offset
        for where, offset in from_json(positions).items()
        if offset + lost > (copied[where].source if where in copied else 0)
    }


def rejoin(context: StepContext) -> Data:
    """Let the flow back begin at the cut, and write to topics that keep their names; count the remaining records of the
    lost source."""
    plan = context.entries.begun("rejoin") or {}
    world = context.world
    missing = _not_reached(context, plan["positions"], lost=plan["lost"])
    if missing:
        world.seed_positions(missing, "target")
    if plan["fence"]:
        world.lift_fence(plan["fence"], "target")
        world.note_fence(None, "target")
    world.close_copies(context.topics)
    return {"seeded": bool(plan["positions"]), "tail": plan["tail"], "lifted": bool(plan["fence"])}


def begin_topics(context: StepContext) -> Data:
    """The topics that producers will need."""
    return context.world.missing_topics(context.topics)


def create_topics(context: StepContext) -> Data | EarlierStep:
    """Create the topics that producers write to on the target, with the source's partitions and settings."""
    if context.options.kind is not SwitchoverKind.EMERGENCY and (new := _new(context)):
        return EarlierStep(
            "check", f"{listed({where.topic for where in new})}: topics or partitions came to the source"
        )
    plan = context.entries.begun("topics") or {}
    refused = context.world.create_topics(plan)
    if context.options.kind is not SwitchoverKind.EMERGENCY:
        context.world.get_ready(context.fence, context.topics, began(context.world))
    return {"refused": refused, "created": sorted(plan.get("topics", {}))}


def begin_fence(context: StepContext) -> Data:
    """Return the changes of the fence and the settings to restore afterwards; both are written before the first
    change."""
    try:
        return context.world.plan_fence(context.fence, context.topics)
    except (ClusterError, NotReadyError) as error:
        if context.options.kind is not SwitchoverKind.EMERGENCY:
            raise
        return left_fence(context, error)


def left_fence(context: StepContext, error: TwinlogError) -> Data:
    """The entry of a fence that an emergency leaves out, with the reason, and whether the source answers: then an
    operator has to act now, and not only when the source is back."""
    return {"left": str(error), "answers": context.world.source_answers}


def fence(context: StepContext) -> Data:
    """Keep producers from the source; of a lost source, as far as possible."""
    plan = context.entries.begun("fence") or {}
    if "left" in plan:
        return plan
    try:
        if plan:
            context.world.note_fence(plan, "source")
        context.world.fence_producers(plan, context.confirm)
    except ClusterError as error:
        if context.options.kind is not SwitchoverKind.EMERGENCY:
            raise
        return left_fence(context, error)
    return {}


def lift(context: StepContext) -> None:
    """Let producers write to the source again."""
    plan = context.entries.begun("fence") or {}
    if plan and "left" not in plan:
        context.world.lift_fence(plan, "source")
        context.world.note_fence(None, "source")


def prove(context: StepContext) -> Data | EarlierStep:
    """Show for each partition that every record up to the cut is on the target: by position, and in proven topics by
    the proof of equality."""
    world, cut = context.world, context.offsets("settle", "cut")
    lost = context.options.kind is SwitchoverKind.EMERGENCY
    copied, there = world.read_copied_positions(), remotes(context)
    on_target = world.target_ends(there.values())
    starts: Offsets = {}
    if not lost:
        _require_no_others(context)
        # The source ends are read last, so that they include all records up to now.
        ends = world.source_ends(context.topics)
        grown = [where for where, end in ends.items() if end.end != cut.get(where)]
        if grown:
            context.require_time("prove")
            return EarlierStep("settle", f"producers wrote to {listed({where.topic for where in grown})} after the cut")
        starts = world.source_starts(context.topics)
        behind = lag(cut, starts, copied)
        spans = {where: (cut[where] - left, cut[where]) for where, left in behind.items()}
        if spans and spans.keys() - world.find_empty_spans(spans):
            context.require_time("prove")
            return EarlierStep("drain", "positions went back after the cut")
        if unproven := find_unproven(context, cut, starts, copied):
            context.require_time("prove")
            topics = listed({where.topic for where in unproven})
            return EarlierStep("drain", f"the copies of {topics} are proven no more up to the cut")
    proofs = world.read_proven([where for where in cut if lost or where.topic in context.proven])
    rows, short, positions = [], [], {}
    for where, end in sorted(cut.items()):
        remote = there[where]
        known, is_end = copied.get(where), on_target.get(remote)
        expected = None if known is None else known.target
        if is_end is None and known is not None:
            raise ClusterError(f"cluster {world.ends.target}: the end of {remote} is unknown")
        if is_end is not None and expected is not None and is_end + 1 < expected:
            short.append(str(remote))
        known_ends = [offset for offset in (expected, is_end) if offset is not None]
        if known_ends:
            # With a position beyond the end of the log the flow back would skip the records written there next.
            positions[remote] = min(known_ends)
        rows.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "start": starts.get(where),
                "end": None if lost else end,
                "copied": known.source if known is not None else 0,
                "to_topic": remote.topic,
                "to_end": is_end,
                "expected": expected,
                "proof": _proof_row(proofs.get(where)),
            }
        )
    if short and not lost:
        raise TwinlogError(f"cluster {world.ends.target} lost records that were copied: {listed(short)}")
    kept = {topic.remote for topic in context.topics if topic.keeps_name}
    return {
        "rows": rows,
        "short": short,
        "positions": to_json({where: offset for where, offset in positions.items() if where.topic in kept}),
    }


def _proof_row(proof: PartitionProven | None) -> Data | None:
    """The proof of a partition with its ranges, as values of JSON; None if it lacks a proof."""
    if proof is None or not (proof.proves or proof.ranges):
        return None
    return {**proof.as_json(), "ranges": [asdict(one) for one in proof.ranges]}


def _require_no_others(context: StepContext) -> None:
    """Raise TwinlogError when unfenced partitions, created since the pre-flight, have records."""
    new, world = _new(context), context.world
    if not new:
        return
    ends = world.source_ends(world.list_moving_topics())
    written = {where.topic for where in new if where in ends and ends[where].end}
    if written:
        raise TwinlogError(
            f"{listed(written)}: came to {world.ends.source} after the check, with records that were not waited for; "
            "undo with --abort, and begin again"
        )


def count_uncopied(context: StepContext) -> tuple[Data, Data]:
    """Count the records that stayed on a source that was lost and answers again.

    Returns the results of `check` and `prove` with these counts: the ends of the source, the copied positions, and the
    source offsets without a copy. Raises ClusterError.
    """
    world, checked, proof = context.world, context.done("check"), context.done("prove")
    source, at_ms = world.ends.source, world.now_ms()
    # The flow may copy meanwhile, so the positions are read last.
    ends = {where: end.end for where, end in world.source_ends(context.topics).items()}
    starts, copied, there = world.source_starts(context.topics), world.read_copied_positions(), remotes(context)
    left = lag(ends, starts, copied)
    for where in world.find_empty_spans({where: (ends[where] - count, ends[where]) for where, count in left.items()}):
        del left[where]
    on_target = world.target_ends(there.values())
    kept = {topic.name for topic in context.topics if topic.keeps_name}
    rows = []
    for row in proof["rows"]:
        where = TopicPartition(row["topic"], row["partition"])
        known = copied.get(where)
        counted_row = {**row, "end": ends.get(where), "copied": row["copied"] if known is None else known.source}
        if where.topic not in kept:
            # Under the same name the records of producers follow the copies.
            counted_row["to_end"] = on_target.get(there[where], row["to_end"])
        rows.append(counted_row)
    later = ", and all later records" if "left" in context.done("fence") else ""
    note = uncopied_note(source, f"{counted(sum(left.values()), 'record')} at {shown_moment(at_ms)}{later}")
    replaced = {NoteKind.UNCOPIED} if left else {NoteKind.UNCOPIED, NoteKind.LEFT}
    uncopied = {str(where): [ends[where] - count, ends[where]] for where, count in sorted(left.items())}
    return replace_notes(checked, replaced, note), {**proof, "rows": rows, "uncopied": uncopied}


def begin_seed(context: StepContext) -> Data:
    """Return the positions at which the way back begins."""
    return {"positions": context.done("prove")["positions"]}


def seed(context: StepContext) -> Data:
    """Let the flow back begin after the copies, if producers continue in the same topics."""
    positions = (context.entries.begun("seed") or {})["positions"]
    if positions:
        context.world.seed_positions(from_json(positions), "source")
    return {"positions": positions}


def begin_open(context: StepContext) -> Data:
    """The fence that a move before left on the cluster that is moved to now."""
    return {"fence": context.world.read_fence() or {}}


def open_target(context: StepContext) -> Data:
    """Let producers write to the new cluster."""
    plan = (context.entries.begun("open") or {})["fence"]
    if plan:
        context.world.lift_fence(plan, "target")
        context.world.note_fence(None, "target")
    context.world.open_copies(context.topics)
    return {"lifted": bool(plan)}


def close_target(context: StepContext) -> None:
    """Let the flow keep producers from its copies again."""
    context.world.close_copies(context.topics)


def close(context: StepContext) -> Data:
    """End the switchover before, whose way back this was; of a lost source, once the source answers."""
    if not context.world.source_answers:
        return {"left": f"cluster {context.world.ends.source} is silent"}
    try:
        context.world.close_earlier()
    except ClusterError as error:
        if context.options.kind is not SwitchoverKind.EMERGENCY:
            raise
        return {"left": str(error)}
    return {}


STEPS: Mapping[str, Step] = {
    step.name: step
    for step in (
        Step("check", "look at both clusters", check),
        Step("rejoin", "let the flow back begin at the cut", rejoin, begin_rejoin),
        Step("catch-up", "wait until little is left to copy", catch_up),
        Step("topics", "create the topics that producers will write to", create_topics, begin_topics),
        Step("fence", "keep producers from the source", fence, begin_fence, lift),
        Step(
            "settle",
            "wait until the source stands still",
            settle,
            words_of_lost="wait until the copies keep their ends",
        ),
        Step("drain", "wait until everything is copied", drain),
        Step("groups", "commit the offsets of groups on the target", sync_groups),
        Step(
            "prove",
            "show that all records are on the target",
            prove,
            words_of_lost="note the ends of the copies on the target",
        ),
        Step("seed", "write down where the way back begins", seed, begin_seed),
        Step("open", "let producers write to the target", open_target, begin_open, close_target),
        Step("watch", "producers may go on; see that the source stays still", watch),
        Step("close", "end the switchover before", close),
    )
}

ORDER: Mapping[SwitchoverKind, tuple[str, ...]] = {
    SwitchoverKind.PLANNED: (
        "check",
        "catch-up",
        "topics",
        "fence",
        "settle",
        "drain",
        "groups",
        "prove",
        "seed",
        "open",
        "watch",
        "close",
    ),
    SwitchoverKind.EMERGENCY: ("check", "fence", "settle", "topics", "groups", "prove", "open", "close"),
    SwitchoverKind.BACK: (
        *("check", "rejoin", "catch-up", "topics", "fence"),
        *("settle", "drain", "groups", "prove", "seed", "open", "watch", "close"),
    ),
}
