"""The last check: producers write to the target already and do not wait for it."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.errors import TwinlogError
from twinlog.model.topics import listed
from twinlog.model.types import TopicPartition
from twinlog.ops.switchover.model import Data, End
from twinlog.ops.switchover.offsets_json import Offsets, from_json
from twinlog.ops.switchover.steps.step import Context
from twinlog.ops.switchover.steps.waiting import LOOK_S, STILL_S, lag


def watch(context: Context) -> Data:
    """See that the source stays where it was cut; what somebody writes to it all the same is copied, and shown.

    Raises TwinlogError when somebody writes on for longer than producers may wait at most.
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
            context.show("watch", f"somebody wrote to {topics} on {name} after the cut: stop that; it is copied, too")
            if now_ms - began_ms > context.options.at_most_s * 1000:
                raise TwinlogError(
                    f"somebody writes to {topics} on {name} in spite of the fence, or it is not copied; stop that, let "
                    f"flow {world.ends} run, and run the same command again"
                )
        world.sleep(LOOK_S)


def _copied(context: Context, found: Mapping[TopicPartition, End], late: Offsets) -> bool:
    if any(end.stable < end.end for end in found.values()):
        return False
    left = lag(late, context.world.source_starts(context.topics), context.world.copied()) if late else {}
    return left.keys() <= context.world.hollow(
        {where: (late[where] - count, late[where]) for where, count in left.items()}
    )


def spans(cut: Offsets, late: Offsets) -> dict[str, Data]:
    """From where to where partitions were written after the cut, as values of JSON."""
    found: dict[str, Data] = {}
    for where, end in sorted(late.items()):
        found.setdefault(where.topic, {})[str(where.partition)] = [cut.get(where, 0), end]
    return found


def ends_of(found: dict[str, Data]) -> Offsets:
    """Where those partitions end that `spans` has."""
    return from_json({topic: {number: end for number, (_, end) in one.items()} for topic, one in found.items()})
