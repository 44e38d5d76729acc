"""How large a batch of one remote topic may be, as far as is known, and by what rules its batches are built."""

from __future__ import annotations

from dataclasses import replace

from twinlog.clock import LONG_AGO
from twinlog.kafka.producer.appends import CopyRules

SURE_S = 5.0
"""How long an answer about the remote topic's limit counts."""


class BatchLimit:
    """`topic_bytes` is the remote topic's `max.message.bytes`; `rules` are the flow's, held to what the target takes.

    The target may take less than its topic: a broker's own limit may be lower.
    """

    __slots__ = ("_most_bytes", "_sure_until", "rules", "topic_bytes")

    def __init__(self, rules: CopyRules, topic_bytes: int) -> None:
        self.topic_bytes = topic_bytes
        self.rules = replace(rules, max_batch_bytes=min(rules.max_batch_bytes, topic_bytes))
        self._most_bytes = rules.max_batch_bytes
        self._sure_until = LONG_AGO

    def sure(self, now: float) -> bool:
        """Whether the remote topic was asked lately (`now` in monotonic seconds)."""
        return now < self._sure_until

    def confirm(self, topic_bytes: int | None, now: float) -> None:
        """What the remote topic takes now, None if that is unknown."""
        if topic_bytes is not None and topic_bytes != self.topic_bytes:
            self.topic_bytes = topic_bytes
            self.rules = replace(self.rules, max_batch_bytes=min(self._most_bytes, topic_bytes))
        self._sure_until = now + SURE_S

    def lower(self, limit_bytes: int) -> None:
        """The target refused a batch that was larger."""
        if limit_bytes < self.rules.max_batch_bytes:
            self.rules = replace(self.rules, max_batch_bytes=limit_bytes)
