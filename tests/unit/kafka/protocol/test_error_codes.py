"""The numbers of error codes are Kafka's."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, RequestTimedOutError, for_code

from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code

OTHER_NAMES = {
    Code.CORRUPT_MESSAGE: "CorruptRecord",
    Code.NOT_LEADER_OR_FOLLOWER: "NotLeaderForPartition",
    Code.MESSAGE_TOO_LARGE: "MessageSizeTooLarge",
    Code.INVALID_CONFIG: "InvalidConfiguration",
    Code.NONE: "No",
    Code.REBOOTSTRAP_REQUIRED: "UnrecognizedBroker",
}
"""What kafka-python calls some of them; the last one it does not know."""


def test_each_code_has_the_number_of_its_name() -> None:
    for code in Code:
        name = OTHER_NAMES.get(code, "".join(word.capitalize() for word in code.name.split("_")))
        assert for_code(code).__name__.removesuffix("Error") == name.removesuffix("Error"), code


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (KafkaConnectionError(111), "connection refused"),
        (KafkaConnectionError("socket disconnected"), "socket disconnected"),
        (
            KafkaConnectionError("unable to connect: KafkaConnectionError: 111 ECONNREFUSED"),
            "unable to connect: connection refused",
        ),
    ],
)
def test_a_broken_connection_is_told_in_words(error: KafkaConnectionError, why: str) -> None:
    assert str(error_codes.from_kafka(error, "east")) == f"cluster east: the connection to a broker broke ({why})"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RequestTimedOutError("Request timed out after 29999 ms"), " (Request timed out after 29999 ms)"),
        (RequestTimedOutError(), ""),
        (KafkaTimeoutError("Timeout during connect"), " (Timeout during connect)"),
    ],
)
def test_a_silent_broker_is_told_without_names_of_classes(error: KafkaError, why: str) -> None:
    assert str(error_codes.from_kafka(error, "east")) == f"cluster east: a broker has not answered in time{why}"
