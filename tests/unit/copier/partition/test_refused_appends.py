"""What becomes of an append that the target did not take: each error code of Kafka, with and without exactly once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import for_code

from twinlog.copier.partition.refused_appends import (
    Accept,
    Appending,
    FailAppend,
    Isolate,
    ProduceRules,
    Reaction,
    Resolve,
    Retry,
    Skip,
    Split,
    WriteDeadLetter,
    overdue,
    react,
)
from twinlog.errors import CopyError, NotAcknowledgedError, RecordTooLargeError, RefusedError, RefusedRecordError
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import CORRUPT_RETRIES, NO_ANSWER, UNVERIFIED, SentAppend
from twinlog.kafka.protocol.error_codes import Code, explain
from twinlog.kafka.protocol.produce import Appended, RecordError
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ProducerSettings

NEWEST_CODE = 133
"""The last of Kafka 4.3; brokers may have newer ones."""

PART = Appending(
    source=TopicPartition(TopicName("shop"), 0),
    remote=TopicPartition(TopicName("north.shop"), 0),
    transactional=False,
    next_target=40,
    late_appends=False,
)
CLIENT = ClientSettings((), retry_backoff_ms=100, retry_backoff_max_ms=1_000)


def lacks(*missing: str) -> RefusedError:
    return RefusedError(" ".join(missing))


RULES = ProduceRules(ProducerSettings(CLIENT), "stop", "stop", lacks)

# What each decision is called here, and what is not below is a Fail.
BOTH = {
    # Nobody appended it, or nobody knows: class InvalidMetadataException and the rest of RetriableException.
    NO_ANSWER: ("", Retry),
    2: ("CorruptRecordError", Retry),
    3: ("UnknownTopicOrPartitionError", Retry),
    5: ("LeaderNotAvailableError", Retry),
    6: ("NotLeaderForPartitionError", Retry),
    7: ("RequestTimedOutError", Retry),
    8: ("BrokerNotAvailableError", Retry),
    9: ("ReplicaNotAvailableError", Retry),
    13: ("NetworkExceptionError", Retry),
    14: ("CoordinatorLoadInProgressError", Retry),
    15: ("CoordinatorNotAvailableError", Retry),
    16: ("NotCoordinatorError", Retry),
    19: ("NotEnoughReplicasError", Retry),
    20: ("NotEnoughReplicasAfterAppendError", Retry),
    41: ("NotControllerError", Retry),
    51: ("ConcurrentTransactionsError", Retry),
    56: ("KafkaStorageError", Retry),
    74: ("FencedLeaderEpochError", Retry),
    75: ("UnknownLeaderEpochError", Retry),
    78: ("OffsetNotAvailableError", Retry),
    89: ("ThrottlingQuotaExceededError", Retry),
    100: ("UnknownTopicIdError", Retry),
    103: ("InconsistentTopicIdError", Retry),
    # The broker lost track of the producer, or another copier used its sequence numbers.
    UNVERIFIED: ("", Resolve),
    45: ("OutOfOrderSequenceNumberError", Resolve),
    47: ("InvalidProducerEpochError", Resolve),
    59: ("UnknownProducerIdError", Resolve),
    # A batch of several records can be cut.
    10: ("MessageSizeTooLargeError", Split),
    18: ("RecordListTooLargeError", Split),
    # Some record of several is refused for what it holds (KIP-467).
    32: ("InvalidTimestampError", Isolate),
    87: ("InvalidRecordError", Isolate),
    # The broker has had the batch for so long that it does not remember where.
    46: ("DuplicateSequenceNumberError", Accept),
}
EXACTLY_ONCE = {
    # The transaction is over, or somebody else's.
    46: ("DuplicateSequenceNumberError", Resolve),
    48: ("InvalidTxnStateError", Resolve),
    49: ("InvalidProducerIdMappingError", Resolve),
    90: ("ProducerFencedError", Resolve),
    120: ("TransactionAbortableError", Resolve),
}
PERMISSIONS = {29, 30, 31, 53, 58, 61, 65, 66}
"""Fail as well, with the permission that is missing."""


def refused(code: int, records: int = 3, **of_sent: Any) -> SentAppend:
    """An append of records from source offset 7 on, answered with an error for the first time."""
    append = Append(
        bytearray(300), records, SourceOffset(7), SourceOffset(7 + records), 0, ((SourceOffset(7), records),)
    )
    return SentAppend(append, 0, code=code, **{"failures": 1, **of_sent})


def decided(sent: SentAppend, part: Appending = PART, rules: ProduceRules = RULES, chance: float = 0.5) -> Reaction:
    return react(sent, part, rules, chance)


@pytest.mark.parametrize("transactional", [False, True])
def test_every_error_code_of_kafka(transactional: bool) -> None:
    table = BOTH | (EXACTLY_ONCE if transactional else {})
    codes = [UNVERIFIED, NO_ANSWER, *(code for code in range(-1, NEWEST_CODE + 1) if code), 30_000]
    part = replace(PART, transactional=transactional)
    found = {code: type(decided(refused(code), part)) for code in codes}
    assert found == {code: table[code][1] if code in table else FailAppend for code in codes}
    # The numbers above are those of the names.
    assert {code: for_code(code).__name__ for code in table if code >= 0} == {
        code: name for code, (name, _) in table.items() if code >= 0
    }


@pytest.mark.parametrize("transactional", [False, True])
def test_a_missing_permission_is_named(transactional: bool) -> None:
    part = replace(PART, transactional=transactional)
    for code in range(-1, NEWEST_CODE + 1):
        decision = decided(refused(code), part)
        assert (isinstance(decision, FailAppend) and isinstance(decision.error, RefusedError)) == (code in PERMISSIONS)
        if code in PERMISSIONS:
            assert str(decision) == f"{FailAppend(lacks('WRITE', 'topic north.shop', 'copying to it'))}"


@pytest.mark.parametrize("code", [NO_ANSWER, Code.NOT_LEADER_OR_FOLLOWER, Code.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_the_answer_is_what_operators_see(code: int) -> None:
    decision = decided(refused(code))
    assert isinstance(decision, Retry | Resolve)
    assert decision.reason == f"target: {'no answer' if code == NO_ANSWER else for_code(code).__name__}"


@pytest.mark.parametrize(
    ("next_target", "late_appends", "decision"),
    [
        (40, False, Accept(40)),
        (0, False, Accept(0)),
        (40, True, Resolve("target: DuplicateSequenceNumberError")),
        (None, False, Resolve("target: DuplicateSequenceNumberError")),
    ],
)
def test_a_duplicate_is_accepted_only_where_its_place_is_known(
    next_target: int | None, late_appends: bool, decision: Reaction
) -> None:
    part = replace(PART, next_target=next_target, late_appends=late_appends)
    assert decided(refused(Code.DUPLICATE_SEQUENCE_NUMBER), part) == decision


@pytest.mark.parametrize(
    ("failures", "unreached", "again"), [(1, 0, True), (2, 0, True), (3, 0, False), (9, 7, True), (9, 6, False)]
)
def test_as_many_retries_as_are_set(failures: int, unreached: int, again: bool) -> None:
    rules = replace(RULES, producer=ProducerSettings(CLIENT, retries=2))
    decision = decided(refused(NO_ANSWER, failures=failures, unreached=unreached), rules=rules)
    if again:
        assert isinstance(decision, Retry)
    else:
        assert isinstance(decision, FailAppend)
        assert isinstance(decision.error, NotAcknowledgedError)
        assert str(decision.error) == (
            "north.shop-0: the target did not take source offsets 7 to 9 of shop-0 within retries = 2 "
            "(target: no answer)"
        )


def test_what_the_target_finds_corrupt_is_sent_again_a_few_times() -> None:
    """However often it was sent before for other reasons."""
    for corrupt in range(1, CORRUPT_RETRIES + 1):
        decision = decided(refused(Code.CORRUPT_MESSAGE, failures=100 + corrupt, corrupt=corrupt))
        assert isinstance(decision, Retry)
        assert decision.reason == "target: CorruptRecordError"
    decision = decided(refused(Code.CORRUPT_MESSAGE, failures=CORRUPT_RETRIES + 1, corrupt=CORRUPT_RETRIES + 1))
    assert isinstance(decision, FailAppend)
    assert isinstance(decision.error, CopyError)
    text = str(decision.error)
    assert text.startswith("north.shop-0: the target refuses source offsets 7 to 9 of shop-0: ")
    assert text.endswith(f"(error code 2), each of {CORRUPT_RETRIES + 1} times")
    few = replace(RULES, producer=ProducerSettings(CLIENT, retries=2))
    assert "within retries = 2" in str(decided(refused(Code.CORRUPT_MESSAGE, failures=3, corrupt=3), rules=few))


@pytest.mark.parametrize(
    ("failures", "chance", "pause_s"),
    [(1, 0.0, 0.08), (1, 0.5, 0.1), (1, 1.0, 0.12), (3, 0.5, 0.4), (4, 1.0, 0.96), (5, 0.0, 0.8), (5, 1.0, 1.0)],
)
def test_pauses_double_and_spread(failures: int, chance: float, pause_s: float) -> None:
    decision = decided(refused(NO_ANSWER, failures=failures), chance=chance)
    assert isinstance(decision, Retry)
    assert decision.pause_s == pytest.approx(pause_s)


def test_the_same_answer_and_facts_give_the_same_decision() -> None:
    for code in range(-3, NEWEST_CODE + 1):
        one, other = refused(code), refused(code)
        first = decided(one)
        assert str(decided(one)) == str(first)
        assert one == other


@pytest.mark.parametrize("code", [Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE])
def test_what_is_too_large_is_cut_then_skipped_or_an_error(code: int) -> None:
    assert decided(refused(code, 2)) == Split(into_bytes=150, limit_bytes=299)
    skip = replace(RULES, oversized="skip")
    assert decided(refused(code, 2), rules=skip) == Split(into_bytes=150, limit_bytes=299)
    text = "shop-0: record at source offset 7 left out: 300 bytes"
    assert decided(refused(code, 1), rules=skip) == Skip("oversized", text, 299)
    dead = replace(RULES, oversized="dead-letter")
    assert decided(refused(code, 1), rules=dead) == WriteDeadLetter("oversized", text)
    decision = decided(refused(code, 1))
    assert isinstance(decision, FailAppend)
    assert isinstance(decision.error, RecordTooLargeError)
    assert (decision.error.source_offset, decision.error.size) == (7, 300)
    assert "raise max.message.bytes of north.shop" in str(decision.error)


REFUSED_RECORD = [Code.INVALID_TIMESTAMP, Code.INVALID_RECORD]


@pytest.mark.parametrize("code", REFUSED_RECORD)
def test_records_that_the_broker_names_are_sent_alone(code: int) -> None:
    named = (RecordError(2, "no"), RecordError(0, None), RecordError(9, "not of this batch"))
    assert decided(refused(code, 4, refusal=Appended(code, -1, -1, None, named))) == Isolate((0, 2))
    # Without names, halves are sent until the record is found.
    assert decided(refused(code, 4, refusal=Appended(code, -1, -1))) == Isolate(())
    assert decided(refused(code, 2)) == Isolate(())


@pytest.mark.parametrize("code", REFUSED_RECORD)
def test_one_record_that_is_refused_is_left_out_by_policy_or_fails(code: int) -> None:
    refusal = Appended(code, -1, -1, None, (RecordError(0, "its clock is ahead"),))
    sent = refused(code, 1, refusal=refusal)
    text = f"shop-0: record at source offset 7 left out: {Code(code).name}: its clock is ahead"
    assert decided(sent, rules=replace(RULES, refused="skip")) == Skip("refused", text)
    assert decided(sent, rules=replace(RULES, refused="dead-letter")) == WriteDeadLetter("refused", text)
    unexplained = decided(refused(code, 1), rules=replace(RULES, refused="skip"))
    assert isinstance(unexplained, Skip)
    assert unexplained.reason.endswith(f"left out: {Code(code).name}: {explain(code)}")
    # The policy for sizes is another.
    decision = decided(sent, rules=replace(RULES, oversized="skip", refused="hold"))
    assert isinstance(decision, FailAppend)
    assert isinstance(decision.error, RefusedRecordError)
    assert decision.error.source_offset == 7
    assert "twinlog.refused.record.policy.shop = skip or dead-letter" in str(decision.error)


def explained(refusal: Appended | None, spans: tuple[tuple[int, int], ...] = ((7, 3),)) -> str:
    """The message about a batch that holds a record which the target does not take, after the code's own sentence."""
    sent = refused(Code.INVALID_REQUEST, refusal=refusal)
    sent.append.spans = spans
    decision = decided(sent)
    assert isinstance(decision, FailAppend)
    begin = "north.shop-0: the target refuses source offsets 7 to 9 of shop-0: "
    text = str(decision.error)
    assert text.startswith(begin)
    return text[text.index("(error code 42)") + len("(error code 42)") :]


def test_the_broker_is_quoted_and_its_record_named_by_source_offset() -> None:
    assert explained(None) == ""
    assert explained(Appended(87, -1, -1)) == ""
    assert explained(Appended(87, -1, -1, "no key")) == "; the broker: no key"
    one = Appended(87, -1, -1, "one is wrong", (RecordError(2, "no key"),))
    assert explained(one) == "; the broker: one is wrong; source offset 9: no key"
    # Between them the source has lost some.
    assert explained(one, ((7, 2), (20, 1))) == "; the broker: one is wrong; source offset 20: no key"
    many = Appended(87, -1, -1, None, (RecordError(0, None), RecordError(1, "no key"), RecordError(2, "no key")))
    assert explained(many) == "; source offset 7: no reason given, and 2 more records"
    assert explained(Appended(87, -1, -1, None, (RecordError(5, "?"),))) == "; record 5 of the batch: ?"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(None, "no answer yet"), ("target: NotEnoughReplicasError", "target: NotEnoughReplicasError")],
)
def test_what_is_overdue_fails_with_what_it_met_last(trouble: str | None, reason: str) -> None:
    rules = replace(RULES, producer=ProducerSettings(CLIENT, delivery_timeout_ms=30_000))
    assert str(overdue(refused(0).append, PART, rules, trouble).error) == (
        "north.shop-0: the target did not take source offsets 7 to 9 of shop-0 within delivery.timeout.ms = 30000 "
        f"({reason})"
    )
