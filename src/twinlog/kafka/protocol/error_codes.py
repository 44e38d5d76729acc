"""Separates retriable errors from fatal errors: error codes of brokers and errors of the connection.

The codes, and whether a retry can help, come from `org.apache.kafka.common.protocol.Errors`.
"""

from __future__ import annotations

import os
import re
from enum import IntEnum

from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)

from twinlog.errors import ClusterError, RefusedError, TwinlogError
from twinlog.kafka.auth.refusal import JAAS, MECHANISM, LoginRefusedError, NoTokenError, cause_id


class Code(IntEnum):
    """The error codes that twinlog acts on, by their protocol number."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_REPLICATION_FACTOR = 38
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    UNKNOWN_PRODUCER_ID = 59
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    TRANSACTION_ABORTABLE = 120
    REBOOTSTRAP_REQUIRED = 129


RETRIABLE = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.REQUEST_TIMED_OUT,
        8,  # BROKER_NOT_AVAILABLE
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.NOT_ENOUGH_REPLICAS,
        Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        41,  # NOT_CONTROLLER
        Code.CONCURRENT_TRANSACTIONS,
        56,  # KAFKA_STORAGE_ERROR
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        Code.OFFSET_NOT_AVAILABLE,
        Code.THROTTLING_QUOTA_EXCEEDED,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)

LEADER_MOVES = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.FENCED_LEADER_EPOCH,
        Code.UNKNOWN_LEADER_EPOCH,
        # The broker has just become the leader.
        Code.OFFSET_NOT_AVAILABLE,
    }
)
"""Codes of a broker whose leadership of a partition has ended, or is about to begin."""

REFUSED = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        *(58, 61, 65, 66),
    }
)

FENCED = frozenset({Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_PRODUCER_ID_MAPPING})
"""Another producer has the transactional id."""

OTHER_TOPIC = frozenset({Code.UNKNOWN_TOPIC_ID, Code.INCONSISTENT_TOPIC_ID})
"""Codes of a topic that has another id than the requested id, as far as the broker knows."""


def name_of(code: int) -> str:
    """The code's name as kafka-python spells it, e.g. `NotLeaderForPartitionError`."""
    return str(for_code(code).__name__)


def explain(code: int) -> str:
    """A sentence for a code, for messages."""
    error = for_code(code)
    text = getattr(error, "description", "") or getattr(error, "message", "") or error.__name__
    return f"{text} (error code {code})"


def refused(code: int) -> bool:
    """Whether a code means that a permission is missing."""
    return code in REFUSED


def from_kafka(error: BaseException, cluster: str, who: str = "") -> TwinlogError:
    """Turns an error of kafka-python into twinlog's error, which names the cluster and the principal."""
    if isinstance(error, TwinlogError):
        return error
    if isinstance(error, LoginRefusedError):
        return RefusedError(f"cluster {cluster}: {error.sentence}", message_id=cause_id(error.sentence, "TW-AUTH-01"))
    if isinstance(error, NoTokenError):
        return ClusterError(f"cluster {cluster}: {error.sentence}", message_id="TW-AUTH-02")
    if isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError):
        text = re.sub(r"^(\[Error \d+\] )?(\w+Error: )*", "", str(error))
        return RefusedError(
            f"cluster {cluster}: the login was refused{f' for {who}' if who else ''} ({text}); check {JAAS} and "
            f"{MECHANISM} of this cluster",
            message_id="TW-AUTH-01",
        )
    if isinstance(error, AuthorizationError):
        return RefusedError(f"cluster {cluster}: permission denied: {error}", message_id="TW-RIGHT-02")
    if isinstance(error, IncompatibleBrokerVersion):
        named = re.search(r"'(\w+?)(?:Request)?'", str(error))
        what = f"requests of kind {named[1]}" if named else str(error)
        text = f"cluster {cluster}: its brokers are too old for {what}"
        return RefusedError(text, resource=what, message_id="TW-BROKER-04")
    if isinstance(error, RequestTimedOutError | KafkaTimeoutError):
        words = in_words(error)
        return ClusterError(f"cluster {cluster}: a broker has not answered in time{f' ({words})' if words else ''}")
    if isinstance(error, KafkaConnectionError):
        return ClusterError(f"cluster {cluster}: the connection to a broker broke ({in_words(error)})")
    if isinstance(error, KafkaError):
        # The text begins with the name of the error's class.
        return ClusterError(f"cluster {cluster}: {error}")
    if isinstance(error, OSError):
        return ClusterError(f"cluster {cluster}: {type(error).__name__}: {error}")
    return ClusterError(f"cluster {cluster}: unexpected {type(error).__name__}: {error}")


def in_words(error: KafkaError) -> str:
    """The words of the library; the names of its classes are removed.

    If the library gives only a number, the words are the operating system's.
    """
    text = re.sub(r"^\[Error \d+\] |\b\w+Error(: |$)", "", str(error))
    number = re.search(r"\b\d+(?= E[A-Z]+$)|^\d+$", text)
    return text if number is None else text[: number.start()] + os.strerror(int(number[0])).lower()
