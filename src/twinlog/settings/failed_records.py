"""Connect's `errors.*`: the rule for a record that a flow cannot copy, and the topic for these records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from twinlog.settings.written import WrittenAs

Tolerance = Literal["none", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRecordSettings:
    """A record that a transform fails on, or that the target refuses, holds its partition.

    With the tolerance `all` the record is left out (KIP-298, KIP-779).

    A left-out record is written unchanged to `dead_letter_topic` of the target, if there is that topic. With
    `dead_letter_headers` the record has headers there with its origin and the reason. `dead_letter_replication_factor`
    of -1 means the broker's default. With `log_errors` each record is an event, and with `log_messages` the event shows
    the record.
    """

    tolerance: Annotated[Tolerance, WrittenAs("errors.tolerance")] = "none"
    dead_letter_topic: Annotated[str, WrittenAs("errors.deadletterqueue.topic.name")] = ""
    dead_letter_replication_factor: Annotated[int, WrittenAs("errors.deadletterqueue.topic.replication.factor")] = 3
    dead_letter_headers: Annotated[bool, WrittenAs("errors.deadletterqueue.context.headers.enable")] = False
    log_errors: Annotated[bool, WrittenAs("errors.log.enable")] = False
    log_messages: Annotated[bool, WrittenAs("errors.log.include.messages")] = False
