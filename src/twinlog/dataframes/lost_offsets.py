"""Records that are gone before they were read: the query ends, or logs that."""

from __future__ import annotations

import logging

from twinlog.errors import GapError

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
