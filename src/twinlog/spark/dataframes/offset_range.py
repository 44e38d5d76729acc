"""The range of offsets of a Spark task, and the policy for lost offsets.

The values travel from Spark's planning into tasks, so this module leaves readers out.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from twinlog.errors import GapError
from twinlog.model.types import TopicPartition
from twinlog.settings.client import ConsumerSettings

log = logging.getLogger(__name__)


_DATA_LOSS = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your "
    "streaming query to fail on such cases, set the source option failOnDataLoss to false. Reason: "
)


def report_loss(why: str, *, fail: bool) -> None:
    """Report lost records: raise GapError, or log the loss."""
    if fail:
        raise GapError(_DATA_LOSS + why)
    log.warning("TW-DATA-01: some data may have been lost, and failOnDataLoss is false: %s", why)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition from offset `start` to below `end`.

    With `topic_id` the range is of this topic only; a later topic with the same name is another topic. `from_earliest`
    marks a range that begins at the log's first offset: records that are deleted before they are read count as read.
    """

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID | None = None
    from_earliest: bool = False

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RowTask:
    """The settings of tasks that read: the login, the column of headers, and the policy for missing records."""

    consumer: ConsumerSettings
    headers: bool
    fail_on_data_loss: bool
    patience_s: float
