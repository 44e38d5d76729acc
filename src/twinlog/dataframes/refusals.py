"""Decides the consequence of an append that a broker refused for good: smaller batches, or the end of the writing.

The rules follow Kafka's producer (class Sender).
"""

from __future__ import annotations

from twinlog.errors import ClusterError, CopyError, FencedError, RecordTooLargeError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.sent import NO_ANSWER, SentAppend
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.types import TopicPartition

_ENDED = error_codes.TRANSACTION_LOST | {Code.INVALID_PRODUCER_EPOCH}


def halved(sent: SentAppend) -> bool:
    """Whether to send its records in smaller batches."""
    return sent.code in error_codes.TOO_LARGE and sent.append.count > 1


def reason(sent: SentAppend) -> str:
    """The reason of the refusal."""
    if sent.code == NO_ANSWER:
        return "no answer"
    words = error_codes.explain(sent.code)
    refusal = sent.refusal
    if refusal is None:
        return words
    own = [refusal.message or "", *(error.message or "" for error in refusal.record_errors[:1])]
    return "; ".join([words, *filter(None, own)])


def too_large(error: RecordTooLargeError, where: TopicPartition) -> RecordTooLargeError:
    """The error for a row that is too large for a request of this producer."""
    return RecordTooLargeError(
        f"{where}: a row needs a batch of up to {error.size} bytes, and kafka.max.request.size is {error.limit}; raise "
        "it, and the topic's max.message.bytes if that is smaller, or write a smaller value",
        size=error.size,
        limit=error.limit,
    )


def refusal(sent: SentAppend, where: TopicPartition, client: ClusterClient, *, transactional: bool) -> TwinlogError:
    """The error that ends the writing."""
    code, cluster = sent.code, f"cluster {client.alias}"
    if error_codes.refused(code):
        return client.lacks("WRITE", f"topic {where.topic}", "writing to it")
    if code in error_codes.TOO_LARGE:
        return RecordTooLargeError(
            f"{where}: a record needs a batch of {sent.append.bytes} bytes, and the topic takes less; raise its "
            "max.message.bytes, or write a smaller value",
            size=sent.append.bytes,
        )
    if transactional and code in _ENDED:
        return FencedError(
            f"{cluster}: {where}: the transaction has ended: another attempt of this task began, or it was open for "
            f"longer than kafka.transaction.timeout.ms ({reason(sent)})"
        )
    if code in error_codes.OUT_OF_STEP:
        return ClusterError(f"{cluster}: {where} lost records that were acknowledged: {reason(sent)}")
    return CopyError(f"{where}: {cluster} refuses a batch of {sent.append.count} records: {reason(sent)}")
