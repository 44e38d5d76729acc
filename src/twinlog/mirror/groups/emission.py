"""When a checkpoint is written: the rule of Kafka class MirrorCheckpointTask (checkpointIsMoreRecent), and two more."""

from __future__ import annotations

from twinlog.mirror.groups.checkpoints import Checkpoint


def is_due(new: Checkpoint, last: Checkpoint | None, *, exact: bool) -> bool:
    """Whether `new` is written, when `last` is the last one of that group and remote partition.

    As in MirrorMaker 2 checkpoints go forward on the target, and back only with the group. Beyond that one is written
    when only the group's metadata changed, and when an `exact` translation lies before the last checkpoint: the remote
    topic was recreated, and a group that went on by the old checkpoint would skip records.
    """
    if last is None or new.upstream < last.upstream or new.downstream > last.downstream:
        return True
    if new.downstream < last.downstream:
        return exact
    return new.upstream == last.upstream and new.metadata != last.metadata
