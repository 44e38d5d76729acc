"""The remedy for each error code of Kafka, outside of transactions and in a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import (
    CORRUPT_RETRIES,
    NO_ANSWER,
    UNVERIFIED,
    Remedy,
    SendState,
    SentAppend,
    decide,
    explain_refusal,
    remedy_for,
)
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.produce import Appended, RecordError
from twinlog.model.types import SourceOffset
from twinlog.settings.client import ClientSettings

NEWEST_CODE = 133
"""The last code of Kafka 4.3; brokers may have newer codes."""

RETRIED = {NO_ANSWER, *(3, 5, 6, 7, 8, 9), *(13, 14, 15, 16, 19, 20, 41, 51, 56, 74, 75, 78, 89, 100, 103)}
FORBIDDEN = {29, 30, 31, 53, 58, 61, 65, 66}
PRESENT = {
    **dict.fromkeys(RETRIED, Remedy.RETRY),
    **dict.fromkeys(FORBIDDEN, Remedy.AUTHORIZE),
    **dict.fromkeys((UNVERIFIED, 45, 59), Remedy.RESOLVE),
    **dict.fromkeys((10, 18), Remedy.SPLIT),
    **dict.fromkeys((32, 87), Remedy.ISOLATE),
    46: Remedy.ACCEPT,
    47: Remedy.FENCE,
}
IN_TRANSACTIONS = PRESENT | dict.fromkeys((46, 48, 120), Remedy.ABORT) | dict.fromkeys((47, 49, 90), Remedy.FENCE)

CLIENT = ClientSettings((), retry_backoff_ms=100, retry_backoff_max_ms=1_000)


def refused(code: int, **of_sent: Any) -> SentAppend:
    append = Append(bytearray(300), 3, SourceOffset(7), SourceOffset(10), 0, ((SourceOffset(7), 3),))
    return SentAppend(append, 0, code=code, **{"failures": 1, **of_sent})


@pytest.mark.parametrize(("transactional", "remedies"), [(False, PRESENT), (True, IN_TRANSACTIONS)])
def test_each_code_has_a_remedy(transactional: bool, remedies: dict[int, Remedy]) -> None:
    codes = [UNVERIFIED, NO_ANSWER, *(code for code in range(-1, NEWEST_CODE + 1) if code), 30_000]
    found = {code: remedy_for(code, transactional=transactional) for code in codes}
    assert found == {code: remedies.get(code, Remedy.FAIL) for code in codes}
    decided = {code: decide(refused(code), CLIENT, transactional=transactional).remedy for code in codes}
    assert decided == found | {Code.CORRUPT_MESSAGE: Remedy.RETRY}


def test_a_batch_that_stays_corrupt_is_not_sent_for_ever() -> None:
    old, new = Appended(2, -1, -1, names_records=False), Appended(2, -1, -1)
    for corrupt, refusal, remedy in (
        (CORRUPT_RETRIES, old, Remedy.RETRY),
        (CORRUPT_RETRIES + 1, None, Remedy.FAIL),
        (CORRUPT_RETRIES + 1, new, Remedy.FAIL),
        (CORRUPT_RETRIES + 1, old, Remedy.ISOLATE),
    ):
        sent = refused(Code.CORRUPT_MESSAGE, corrupt=corrupt, refusal=refusal)
        assert decide(sent, CLIENT, transactional=False).remedy is remedy


def test_a_retry_waits_and_nothing_else_does() -> None:
    decision = decide(refused(NO_ANSWER, failures=3), CLIENT, transactional=False, chance=0.5)
    assert decision.reason == "no answer"
    assert decision.pause_s == pytest.approx(0.4)
    assert decide(refused(Code.MESSAGE_TOO_LARGE), CLIENT, transactional=False).pause_s == 0


def test_an_append_that_was_refused_for_an_earlier_append_is_no_trouble() -> None:
    for code, behind, overtook in ((45, True, True), (59, True, True), (45, False, False), (47, True, False)):
        assert refused(code, behind=behind).overtook is overtook


@pytest.mark.parametrize(
    ("state", "code", "unanswered", "settled"),
    [
        (SendState.IN_FLIGHT, 0, True, False),
        (SendState.FAILED, NO_ANSWER, True, False),
        (SendState.FAILED, UNVERIFIED, False, True),
        (SendState.FAILED, Code.MESSAGE_TOO_LARGE, False, False),
        (SendState.DONE, 0, False, True),
    ],
)
def test_an_append_without_an_answer_may_still_arrive(
    state: SendState, code: int, unanswered: bool, settled: bool
) -> None:
    sent = refused(code, state=state)
    assert (sent.unanswered, sent.settled) == (unanswered, settled)


def test_the_broker_is_quoted_with_the_number_of_the_record() -> None:
    refusal = Appended(87, -1, -1, "one is wrong", (RecordError(2, None), RecordError(0, "no key")))
    text = explain_refusal(refused(Code.INVALID_RECORD, refusal=refusal))
    assert text.endswith(
        "(error code 87); the broker: one is wrong; record 2 of the batch: no reason given, and 1 more record"
    )
