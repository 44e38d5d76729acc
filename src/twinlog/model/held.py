"""A held partition: its copying has stopped at a record, while the rest of its flow is copied.

A copier takes the partition out of its work and stores the partition's position. The driver keeps the `HeldPartition`,
and has the partition tried again with growing pauses. MirrorMaker 2 lacks this state: its task fails, with every
partition of the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from twinlog.errors import (
    CopyError,
    CorruptBatchError,
    DifferenceError,
    DivergedError,
    GapError,
    NoStartError,
    NotAcknowledgedError,
    OffsetHoleError,
    RecordTooLargeError,
    RefusedError,
    RefusedRecordError,
    TransformError,
    TwinlogError,
)
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition

HeldReason = Literal[
    "gap",
    "refused record",
    "oversized record",
    "missing right",
    "corrupt batch",
    "transform",
    "not acknowledged",
    "no start",
    "diverged",
    "hole",
    "difference",
    "record",
]
"""The cause, as logs, metrics and `twinlog status` name it; "record" is any other uncopyable record."""

HELD_REASONS: tuple[HeldReason, ...] = get_args(HeldReason)

_REASONS: tuple[tuple[type[TwinlogError], HeldReason], ...] = (
    (GapError, "gap"),
    (RefusedRecordError, "refused record"),
    (RecordTooLargeError, "oversized record"),
    (RefusedError, "missing right"),
    (CorruptBatchError, "corrupt batch"),
    (TransformError, "transform"),
    (NotAcknowledgedError, "not acknowledged"),
    (NoStartError, "no start"),
    (DivergedError, "diverged"),
    (OffsetHoleError, "hole"),
    (DifferenceError, "difference"),
    (CopyError, "record"),
)

_IDS: dict[str, str] = {
    "gap": "TW-GAP-01",
    "retention": "TW-GAP-01",
    "truncation": "TW-GAP-02",
    "recreated": "TW-GAP-03",
    "refused record": "TW-RECORD-01",
    "oversized record": "TW-RECORD-02",
    "corrupt batch": "TW-RECORD-03",
    "transform": "TW-RECORD-04",
    "record": "TW-RECORD-05",
    "missing right": "TW-RIGHT-01",
    "not acknowledged": "TW-TARGET-01",
    "no start": "TW-START-01",
    "diverged": "TW-IDENT-01",
    "hole": "TW-IDENT-02",
    "difference": "TW-PROOF-01",
}
"""Message ids by reason; a gap has the id of its kind."""

_WAYS_OUT: dict[HeldReason, str] = {
    "corrupt batch": "repair or delete the batch on the source; its records are not copied until then",
    "transform": "mend the transform, or set errors.tolerance = all to leave the record out",
    "missing right": "run twinlog acls FILE --missing, which prints the commands that grant it or remove a denial; the "
    "partition is then copied without a restart",
    "not acknowledged": "the partition is tried again once the target answers",
    "no start": "set auto.offset.reset to earliest or latest",
    "diverged": "keep other producers away from the remote topic and delete it, so that it is created and copied again",
    "hole": "set twinlog.offsets = translated for the topic, and its copies get offsets of their own",
    "difference": "set twinlog.difference.policy = report for the topic to accept the difference, or delete the remote "
    "topic, so that it is created and copied again",
}
"""The ways out for errors that lack a way out of their own."""


def gap_id(kind: str) -> str:
    """The message id of a gap of this kind (`mirror.gaps.Gap`)."""
    return _IDS[kind]


@dataclass(frozen=True, slots=True)
class HeldPartition:
    """Source partition `partition` of `topic` is copied up to `source_offset`, and held there for a `reason`.

    `target_offset` is the next offset of the remote partition, -1 if unknown. `resume_at` is the source offset at which
    copying can continue after a gap, -1 for any other reason. `since_ms` is in Unix time. `text` and `way_out` are
    sentences for the operator.
    """

    topic: str
    partition: int
    reason: HeldReason
    message_id: str
    text: str
    way_out: str
    since_ms: int
    source_offset: SourceOffset
    target_offset: TargetOffset
    resume_at: SourceOffset

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(TopicName(self.topic), self.partition)

    @classmethod
    def by(
        cls,
        error: TwinlogError,
        source: TopicPartition,
        since_ms: int,
        *,
        source_offset: SourceOffset,
        target_offset: TargetOffset,
    ) -> HeldPartition:
        """The partition is held by an error that `reason_of` knows."""
        reason = reason_of(error)
        assert reason is not None
        gap = error if isinstance(error, GapError) else None
        kind = gap.kind if gap is not None and gap.kind else reason
        return cls(
            source.topic,
            source.partition,
            reason,
            _cause_id(error, reason) or _IDS[kind],
            error.message.removeprefix(f"{source}: "),
            error.way_out or _WAYS_OUT.get(reason, ""),
            since_ms,
            source_offset,
            target_offset,
            SourceOffset(-1 if gap is None else gap.resume_at),
        )


def _cause_id(error: TwinlogError, reason: HeldReason) -> str:
    """The id of a cause that the reason alone does not tell; "" if the id of the reason tells it."""
    if reason == "transform":
        return error.message_id
    # A right that is missing has the id of its class.
    return error.message_id if reason == "missing right" and error.message_id != error.kind_id else ""


def reason_of(error: TwinlogError) -> HeldReason | None:
    """The reason for which a partition with this error is held; None for an error that concerns the whole flow."""
    if isinstance(error, RefusedError) and not error.resource.startswith("topic "):
        return None
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), None)
