"""What a Spark task reads, and how. Travels from where Spark plans into tasks, so it imports nothing that reads."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from twinlog.model.types import TopicPartition
from twinlog.settings.flow import ConsumerSettings


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition from offset `start` to below `end`; with `topic_id` of this topic, of no later one
    that got the same name.

    With `from_earliest` it was to begin where the log begins, so what is deleted before it is read is not missing.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID | None = None
    from_earliest: bool = False

    @property
    def size(self) -> int:
        """How many offsets it has; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RowTask:
    """How tasks read: the login, whether there is a column of headers, and what becomes of missing records."""

    consumer: ConsumerSettings
    headers: bool
    fail_on_data_loss: bool
    patience_s: float
