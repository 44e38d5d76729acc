"""The steps that wait: for little lag, for silent producers, for the last record, and for producers on the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import with_id
from twinlog.model.amounts import counted
from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition
from twinlog.ops.proven_ranges import PartitionProven, lag_s
from twinlog.ops.switchover.journal import Offsets, from_json, to_json
from twinlog.ops.switchover.model import CopiedPosition, Data, FenceMethod, SourceEnd, SwitchoverKind, TooLongError
from twinlog.ops.switchover.steps.step import StepContext


def watch(context: StepContext) -> Data:
    """Watch whether the source stays at its cut; later records are copied all the same, and shown.

    Raises TwinlogError when records keep arriving for longer than producers may wait.
    """
    world, settled = context.world, context.done("settle")
    cut, name = from_json(settled["cut"]), world.ends.source
    before, began_ms = dict(cut), world.now_ms()
    since_ms = began_ms - int(settled.get("still_ms", 0))
    while True:
        found, now_ms = world.source_ends(context.topics), world.now_ms()
        ends = {where: end.end for where, end in found.items()}
        if ends != before:
            before, since_ms = ends, now_ms
        late = {where: end for where, end in ends.items() if end > cut.get(where, 0)}
        if now_ms - since_ms >= STILL_S[context.fence] * 1000 and _copied(context, found, late):
            return {"late": spans(cut, late)}
        if late:
            topics = listed({where.topic for where in late})
            late_text = f"somebody wrote to {topics} on {name} after the cut: stop that; it is copied, too"
            context.show("watch", f"TW-SWITCH-02: {late_text}")
            if now_ms - began_ms > context.options.at_most_s * 1000:
                raise TwinlogError(
                    f"somebody writes to {topics} on {name} in spite of the fence, or it is not copied; stop that, let "
                    f"flow {world.ends} run, and run the same command again",
                    message_id="TW-SWITCH-03",
                )
        world.sleep(LOOK_S)


def _copied(context: StepContext, found: Mapping[TopicPartition, SourceEnd], late: Offsets) -> bool:
    if any(end.stable < end.end for end in found.values()):
        return False
    left = lag(late, context.world.source_starts(context.topics), context.world.read_copied_positions()) if late else {}
    return left.keys() <= context.world.find_empty_spans(
        {where: (late[where] - count, late[where]) for where, count in left.items()}
    )


def spans(cut: Offsets, late: Offsets) -> dict[str, Data]:
    """The ranges of offsets written after the cut, by partition, as values of JSON."""
    found: dict[str, Data] = {}
    for where, end in sorted(late.items()):
        found.setdefault(where.topic, {})[str(where.partition)] = [cut.get(where, 0), end]
    return found


def ends_of(found: dict[str, Data]) -> Offsets:
    """The ends of the partitions in the result of `spans`."""
    return from_json({topic: {number: end for number, (_, end) in one.items()} for topic, one in found.items()})


QUICK_LOOK_S = 0.1
"""The pause between two looks, during the first `QUICK_FOR_S` seconds in which producers wait."""

QUICK_FOR_S = 5.0
LOOK_S = 0.5
SLOW_LOOK_S = 2.0
STILL_S: Mapping[FenceMethod, float] = {FenceMethod.ACL: 1.5, FenceMethod.QUOTA: 6.0, FenceMethod.NONE: 6.0}
"""The time during which all source partitions must keep their ends. Brokers learn of an ACL within this time; a
producer muted by a quota may have requests on their way."""

QUIET_S = 0.2
"""The same time once every broker refuses producers: accepted records are in its log at once, or on their way to the
followers, which the ends show."""

LOST_STILL_S = 3.0
"""The time during which the copies of a lost source must keep their ends."""

STANDS_S = 10.0
"""The time that positions stay the same before a line asks for the flow to run."""

HOLLOW_S = 5.0
"""The time that positions stay the same before the rest is searched for records."""


PROOF_NEAR_S = 10.0
"""Producers are fenced once the proof of equality is at most so many seconds behind the copying."""


class Speed:
    """Records per second by which a number falls, for how long it will take."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def eta_s(self, now_s: float, left: int) -> float | None:
        """Seconds until the number reaches 0, None while unknown."""
        if self._first is None or left > self._first[1]:
            self._first = now_s, left
            return None
        gone, since = self._first[1] - left, now_s - self._first[0]
        return left * since / gone if gone > 0 and since > 0 else None


def lag(
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, CopiedPosition],
) -> dict[TopicPartition, int]:
    """Offsets still to copy, by source partition; fully copied partitions are left out."""
    left = {}
    for where, end in ends.items():
        done = copied[where].source if where in copied else starts.get(where, 0)
        if end > max(done, starts.get(where, 0)):
            left[where] = end - max(done, starts.get(where, 0))
    return left


def words(left: int, eta_s: float | None) -> str:
    """How much is left and for how long."""
    when = "" if eta_s is None else f", about {eta_s:.0f} s"
    return f"{counted(left, 'record')} left{when}"


def find_unproven(
    context: StepContext,
    cut: Offsets,
    starts: Mapping[TopicPartition, int],
    copied: Mapping[TopicPartition, CopiedPosition],
) -> dict[TopicPartition, PartitionProven | None]:
    """The partitions of proven topics whose copies up to the cut still have to be proven equal, with the last report of
    their proof.

    The proof compares records soon after their copy, so this question takes the same time for any amount of records.
    """
    topics = context.proven
    wanted = [where for where, end in sorted(cut.items()) if where.topic in topics and end > starts.get(where, 0)]
    proofs = context.world.read_proven(wanted) if wanted else {}
    found: dict[TopicPartition, PartitionProven | None] = {}
    for where in wanted:
        proof = proofs.get(where)
        # Markers of transactions may follow the last record before the cut.
        end = min(cut[where], copied[where].source) if where in copied else cut[where]
        if proof is None or not proof.reaches(end):
            found[where] = proof
    return found


def name_far_proof(context: StepContext, ends: Offsets, starts: Mapping[TopicPartition, int]) -> str:
    """The reason, in words, for which producers of proven topics would wait long for the proof; empty if it is near."""
    topics = context.proven
    wanted = [where for where, end in sorted(ends.items()) if where.topic in topics and end > starts.get(where, 0)]
    proofs = context.world.read_proven(wanted) if wanted else {}
    lacking = [where for where in wanted if where not in proofs or not proofs[where].proves]
    if lacking:
        return f"{lacking[0]} lacks a proof; the flow must run with its proof"
    behind_s = lag_s(proofs)
    return f"the proof of equality is {behind_s:.0f} s behind" if behind_s > PROOF_NEAR_S else ""


def proof_words(unproven: Mapping[TopicPartition, PartitionProven | None], cut: Offsets) -> str:
    """How many partitions wait for the proof, and how far the first of them is proven."""
    where, proof = next(iter(unproven.items()))
    count = f"{counted(len(unproven), 'partition')} to prove equal"
    if proof is None or not proof.proves:
        return f"{count}: {where} lacks a proof; the flow must run with its proof"
    return f"{count}: {where} is proven up to {proof.source}, the cut is {cut[where]}"


def waits_for(stopped: Sequence[str], left: str) -> str:
    """The first held or paused partition that a step waits for, the number of further partitions, and what is left."""
    more = f" (and {len(stopped) - 1} more)" if len(stopped) > 1 else ""
    return with_id(f"{stopped[0]}{more}; {left}", "TW-SWITCH-18")


def catch_up(context: StepContext) -> Data:
    """Wait until little is left to copy, by a flow that runs, so that producers are fenced for seconds.

    Raises TooLongError when that takes longer than the operator allows.
    """
    world, speed = context.world, Speed()
    starts = world.source_starts(context.topics)
    first = before = world.read_copied_positions()
    began_ms = moved_ms = world.now_ms()
    while True:
        ends = {where: end.end for where, end in world.source_ends(context.topics).items()}
        copied, now_ms = world.read_copied_positions(), world.now_ms()
        if copied != before:
            before, moved_ms = copied, now_ms
        left = sum(lag(ends, starts, copied).values())
        # A small lag counts only while records are copied: otherwise it would stay above 0.
        near = left == 0 or (left <= context.options.near and copied != first)
        unproven = name_far_proof(context, ends, starts) if near else ""
        if near and not unproven:
            return {"lag": left}
        stands = now_ms - moved_ms >= STANDS_S * 1000
        text = words(left, speed.eta_s(now_ms / 1000, left))
        if stopped := world.name_stopped_partitions(ends, starts, copied):
            text = waits_for(stopped, text)
        elif near:
            text = f"TW-SWITCH-19: {text}; {unproven}"
        elif stands:
            text = f"TW-SWITCH-14: {text}; nothing is copied: flow {world.ends} must run"
        context.show("catch-up", text)
        if context.is_late(began_ms):
            raise TooLongError(
                f"step catch-up took longer than {context.options.at_most_s:g} s, and producers stayed unfenced"
            )
        world.sleep(SLOW_LOOK_S)


def settle(context: StepContext) -> Data:
    """Wait until all source partitions keep their ends and all transactions have ended; these ends are the cut."""
    if context.options.kind is SwitchoverKind.EMERGENCY:
        return _settle_lost(context)
    world, still_s, plan = context.world, STILL_S[context.fence], context.entries.begun("fence") or {}
    before: dict[TopicPartition, SourceEnd] = {}
    began_ms = since_ms = world.now_ms()
    held_ms: int | None = None
    while True:
        if held_ms is None and world.fence_holds(plan):
            held_ms = world.now_ms()
        ends, now_ms = world.source_ends(context.topics), world.now_ms()
        grown = [where for where, end in ends.items() if where not in before or before[where] != end]
        if grown:
            since_ms = now_ms
        pending = [where for where, end in ends.items() if end.stable < end.end]
        still_ms = now_ms - since_ms
        quiet = held_ms is not None and min(still_ms, now_ms - held_ms) >= QUIET_S * 1000
        if not pending and (quiet or still_ms >= still_s * 1000):
            return {"cut": to_json({where: end.end for where, end in ends.items()}), "still_ms": still_ms}
        context.require_time("settle")
        if pending:
            transactions = listed(world.open_transactions(pending[:3]))
            context.show("settle", f"TW-SWITCH-06: waits for transactions to end: {transactions}")
        elif before and grown:
            topics = listed({where.topic for where in grown})
            context.show("settle", f"TW-SWITCH-01: producers still write to {topics}")
        before = ends
        world.sleep(look_s(now_ms - began_ms))


def look_s(waited_ms: int) -> float:
    """Seconds until the next look."""
    return QUICK_LOOK_S if waited_ms < QUICK_FOR_S * 1000 else LOOK_S


def _settle_lost(context: StepContext) -> Data:
    """The same for a lost source: wait until its copies keep their ends.

    Raises TwinlogError when they grow for longer than the operator allows; the steps before stay done.
    """
    world, moved = context.world, {topic.name for topic in context.topics}
    before: tuple[object, Mapping[TopicPartition, int]] = None, {}
    began_ms = since_ms = world.now_ms()
    while True:
        copied = {where: one for where, one in world.read_copied_positions().items() if where.topic in moved}
        ends = world.target_ends(remotes(context).values())
        now_ms = world.now_ms()
        grown = {where.topic for where, end in ends.items() if before[1] and before[1].get(where) != end}
        if (copied, ends) != before:
            before, since_ms = (copied, ends), now_ms
        if now_ms - since_ms >= LOST_STILL_S * 1000:
            return {"cut": to_json({where: one.source for where, one in copied.items()})}
        text = "waits until the copies stand still"
        if grown:
            topics = listed(grown)
            text = f"TW-SWITCH-15: {text}; {topics} grows on {world.ends.target}: producers must not write there yet"
        context.show("settle", text)
        if context.is_late(began_ms):
            growing = listed(grown or moved)
            raise TwinlogError(
                f"the copies of {growing} on {world.ends.target} have grown for {context.options.at_most_s:g} s; stop "
                f"flow {world.ends} and all producers there, and run the same command again",
                message_id="TW-SWITCH-15",
            )
        world.sleep(LOOK_S)


def drain(context: StepContext) -> Data:
    """Wait until all records up to the cut are copied, and proven equal in proven topics; returns the ends of the
    copies on the target."""
    world, speed, cut = context.world, Speed(), context.offsets("settle", "cut")
    starts = world.source_starts(context.topics)
    before: dict[TopicPartition, int] = {}
    began_ms = since_ms = world.now_ms()
    while True:
        copied = world.read_copied_positions()
        behind = lag(cut, starts, copied)
        now_ms = world.now_ms()
        if behind != before:
            before, since_ms = behind, now_ms
        elif behind and now_ms - since_ms >= HOLLOW_S * 1000:
            # MirrorMaker 2 stores the positions of records: markers of transactions after the last record are left out.
            for where in world.find_empty_spans(
                {where: (cut[where] - left, cut[where]) for where, left in behind.items()}
            ):
                del behind[where]
        unproven = {} if behind else find_unproven(context, cut, starts, copied)
        if not behind and not unproven:
            there = remotes(context)
            ends = world.target_ends(there.values())
            return {
                "there": to_json(
                    {
                        where: known.target if (known := copied.get(where)) and known.target is not None else end
                        for where in cut
                        if (end := ends.get(there[where])) is not None
                    }
                )
            }
        context.require_time("drain")
        left = sum(behind.values())
        text = proof_words(unproven, cut) if unproven else words(left, speed.eta_s(now_ms / 1000, left))
        stopped: Sequence[str] = ()
        # The first looks come quickly one after another, while producers wait.
        if now_ms - began_ms >= QUICK_FOR_S * 1000:
            stopped = world.name_stopped_partitions(cut, starts, copied)
            text = with_id(text, "TW-SWITCH-19") if unproven and not stopped else text
        context.show("drain", waits_for(stopped, text) if stopped else text)
        world.sleep(look_s(now_ms - began_ms))


def remotes(context: StepContext) -> dict[TopicPartition, TopicPartition]:
    """The remote partition of each source partition."""
    return {
        TopicPartition(topic.name, number): TopicPartition(topic.remote, number)
        for topic in context.topics
        for number in range(topic.partitions)
    }
