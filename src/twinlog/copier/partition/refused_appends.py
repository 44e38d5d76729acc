"""The reaction of a partition to an append that the target did not take: the remedy for the answer, and the policies.

`kafka.producer.produce_errors.decide` has the remedy. If the target lost the producer's state, the copier reads the
log. The flow's policies apply to a record that the target refuses alone.

`PartitionAppends` and `Routes` carry the reaction out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from twinlog.copier.partition.batch_limit import left_out, refused_as_too_large
from twinlog.errors import CopyError, NotAcknowledgedError, RefusedError, RefusedRecordError, TwinlogError
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import (
    UNVERIFIED,
    ProduceDecision,
    Remedy,
    SentAppend,
    decide,
    explain_refusal,
)
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TargetOffset, TopicPartition
from twinlog.settings.client import ProducerSettings
from twinlog.settings.flow import FlowSettings, RecordPolicy
from twinlog.settings.written import key_of


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the append again after `pause_s` seconds, with the same bytes and sequence numbers.

    The append goes to the leader at that time.
    """

    pause_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Resolve:
    """Read the arrived records in the remote log, and continue after them; a transaction is aborted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Accept:
    """The append is on the target already, at `base_offset`, the expected offset of the next append."""

    base_offset: TargetOffset


@dataclass(frozen=True, slots=True)
class Split:
    """Send the append's records in batches of `into_bytes` at most.

    The target takes batches of `limit_bytes` at most.
    """

    into_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Isolate:
    """Send the records with these numbers, from 0 on, in batches of their own.

    With an empty tuple, send each half by itself.
    """

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave the append's single record out.

    `limit_bytes` is the largest batch of the target, if the size is the reason.
    """

    kind: LeftOutKind
    reason: str
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class WriteDeadLetter:
    """Write the append's single record to the dead-letter topic, then leave the record out."""

    kind: LeftOutKind
    reason: str


@dataclass(frozen=True, slots=True)
class FailAppend:
    """The partition stops on `error`."""

    error: TwinlogError


Reaction: TypeAlias = Retry | Resolve | Accept | Split | Isolate | Skip | WriteDeadLetter | FailAppend

LeftOutKind = Literal["oversized", "refused"]
"""The kind of event for a record that is left out."""


@dataclass(frozen=True, slots=True)
class Appending:
    """The facts for a decision: `next_target` is the offset that the next append gets, None when unknown.

    While `late_appends`, appends of an earlier copier may still arrive.
    """

    source: TopicPartition
    remote: TopicPartition
    transactional: bool
    next_target: TargetOffset | None
    late_appends: bool


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """The settings, with the policies for the source topic.

    `lacks` makes the error for a missing permission from operation, resource and purpose.
    """

    producer: ProducerSettings
    oversized: RecordPolicy
    refused: RecordPolicy
    lacks: Callable[[str, str, str], RefusedError]


def react(sent: SentAppend, part: Appending, rules: ProduceRules, chance: float) -> Reaction:
    """React to the first append in the window; it was refused or got no answer, and all other appends are answered.

    `chance`, from 0 to 1, spreads the pauses of partitions that fail together.
    """
    decision = decide(sent, rules.producer.client, transactional=part.transactional, chance=chance)
    reason = f"target: {decision.reason}"
    match decision.remedy:
        case Remedy.RETRY:
            return _again(sent, part, rules, decision)
        case Remedy.ACCEPT if part.next_target is not None and not part.late_appends:
            return Accept(part.next_target)
        case Remedy.RESOLVE if sent.code == UNVERIFIED:
            return Resolve("target: it may have another append with these sequence numbers, the log is read")
        case Remedy.ACCEPT | Remedy.RESOLVE | Remedy.FENCE | Remedy.ABORT:
            return Resolve(reason)
        case Remedy.SPLIT:
            return _too_large(sent.append, part, rules)
        case Remedy.ISOLATE:
            return _refused_record(sent, part, rules)
        case Remedy.AUTHORIZE:
            return FailAppend(rules.lacks("WRITE", f"topic {part.remote.topic}", "copying to it"))
        case Remedy.FAIL:
            append = sent.append
            return FailAppend(
                CopyError(
                    f"{part.remote}: the target refuses source offsets {append.first_source_offset} to "
                    f"{append.next_source_offset - 1} of {part.source}: "
                    f"{explain_refusal(sent, lambda number: _place(append, number))}"
                )
            )


def overdue(append: Append, part: Appending, rules: ProduceRules, trouble: str | None) -> FailAppend:
    """The target has not acknowledged an append within `delivery.timeout.ms`; `trouble` is its last error."""
    limit = f"{key_of(ProducerSettings, 'delivery_timeout_ms')} = {rules.producer.delivery_timeout_ms}"
    return _gave_up(append, part, limit, trouble or "no answer yet")


def _again(sent: SentAppend, part: Appending, rules: ProduceRules, decision: ProduceDecision) -> Retry | FailAppend:
    producer, reason = rules.producer, f"target: {decision.reason}"
    # As in Kafka's producer, which waits for a connection and only then sends (class Sender).
    if sent.failures - sent.unreached > producer.retries:
        return _gave_up(sent.append, part, f"{key_of(ProducerSettings, 'retries')} = {producer.retries}", reason)
    return Retry(decision.pause_s, reason)


def _gave_up(append: Append, part: Appending, limit: str, reason: str) -> FailAppend:
    return FailAppend(
        NotAcknowledgedError(
            f"{part.remote}: the target did not take source offsets {append.first_source_offset} to "
            f"{append.next_source_offset - 1} of {part.source} within {limit} ({reason})"
        )
    )


def _too_large(append: Append, part: Appending, rules: ProduceRules) -> Split | Skip | WriteDeadLetter | FailAppend:
    # The remote topic's limit was lowered, or the broker's own limit is lower than the topic's.
    if append.count > 1:
        return Split(append.bytes // 2, append.bytes - 1)
    reason = left_out(part.source, append.first_source_offset, f"{append.bytes} bytes")
    if rules.oversized == "skip":
        return Skip("oversized", reason, append.bytes - 1)
    if rules.oversized == "dead-letter":
        return WriteDeadLetter("oversized", reason)
    return FailAppend(refused_as_too_large(part.source, part.remote, append.first_source_offset, append.bytes))


def _refused_record(
    sent: SentAppend, part: Appending, rules: ProduceRules
) -> Isolate | Skip | WriteDeadLetter | FailAppend:
    append, refusal = sent.append, sent.refusal
    if append.count > 1:
        named = set() if refusal is None else {error.number for error in refusal.record_errors}
        return Isolate(tuple(sorted(number for number in named if 0 <= number < append.count)))
    why = _explained_alone(sent)
    reason = left_out(part.source, append.first_source_offset, why)
    if rules.refused == "skip":
        return Skip("refused", reason)
    if rules.refused == "dead-letter":
        return WriteDeadLetter("refused", reason)
    offset = append.first_source_offset
    return FailAppend(
        RefusedRecordError(
            f"{part.remote}: the target refuses the record at source offset {offset} of {part.source}: {why}",
            source_offset=offset,
            way_out=f"change the setting of {part.remote.topic}, or set "
            f"{key_of(FlowSettings, 'refused_record_policy')}.{part.source.topic} = skip or dead-letter to leave such "
            "records out",
        )
    )


def _explained_alone(sent: SentAppend) -> str:
    """The reason why the target refuses a record that was sent alone: the broker's message, if any."""
    code = Code(sent.code).name
    refusal = sent.refusal
    messages = () if refusal is None else (*(error.message for error in refusal.record_errors), refusal.message)
    text = f"{code}: {next(filter(None, messages), error_codes.explain(sent.code))}"
    if refusal is not None and not refusal.names_records and sent.code == Code.CORRUPT_MESSAGE:
        text += "; brokers before Kafka 2.4 answer so where the topic is compacted and the record has no key"
    return text


def _place(append: Append, number: int) -> str:
    """The name of a record of an append, by its number within the batch, counted from 0."""
    index = number
    for first, count in append.spans:
        if 0 <= index < count:
            return f"source offset {first + index}" if first >= 0 else f"record {number} of the batch"
        index -= count
    return f"record {number} of the batch"
