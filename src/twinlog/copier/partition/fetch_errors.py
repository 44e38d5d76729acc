"""Decides about a fetch that the source answered with an error or a diverging epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch_response import PartitionResponse
from twinlog.model.types import SourceOffset, TopicPartition

_OTHER_TOPIC = error_codes.OTHER_TOPIC | {Code.UNKNOWN_TOPIC_OR_PARTITION}


@dataclass(frozen=True, slots=True)
class PauseFetch:
    """Fetch the partition again after a while."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckSource:
    """Check the source.

    Its log differs from the copied records from `end` on, or lacks the offset (-1), or the topic is another topic
    (None).
    """

    end: SourceOffset | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FailFetch:
    """Stop copying the partition."""

    error: TwinlogError


FetchDecision: TypeAlias = PauseFetch | CheckSource | FailFetch


def decide(
    fetched: PartitionResponse, source: TopicPartition, lacks: Callable[[str, str, str], RefusedError]
) -> FetchDecision:
    """Decide about an answer that is an error or reports a diverging epoch.

    `lacks` makes the error for a missing permission from operation, resource and purpose.
    """
    code = fetched.error
    if error_codes.refused(code):
        return FailFetch(lacks("READ", f"topic {source.topic}", "copying it"))
    if fetched.diverging_epoch >= 0:
        return CheckSource(SourceOffset(fetched.diverging_end))
    if code == Code.OFFSET_OUT_OF_RANGE:
        return CheckSource(SourceOffset(-1))
    reason = f"source: {error_codes.name_of(code)}"
    return CheckSource(None, reason) if code in _OTHER_TOPIC else PauseFetch(reason)
