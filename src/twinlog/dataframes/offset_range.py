"""The range of offsets of a Spark task, and the policy for offsets that are lost.

The values travel from the place where Spark plans into tasks, so this module imports no reader.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from twinlog.errors import GapError
from twinlog.model.types import TopicPartition
from twinlog.settings.flow import ConsumerSettings

log = logging.getLogger(__name__)


_DATA_LOSS = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: "
)


def report_loss(why: str, *, fail: bool) -> None:
    """Records are gone: raise GapError, or log it."""
    if fail:
        raise GapError(_DATA_LOSS + why)
    log.warning("some data may have been lost, and failOnDataLoss is false: %s", why)


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
