"""Reads rows in a Spark task, over connections that its process keeps for the next task."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from twinlog.dataframes.offset_range import OffsetRange, RowTask
from twinlog.dataframes.range_reader import RangeReader
from twinlog.kafka.net.loop import Loop
from twinlog.settings.flow import ConsumerSettings

MOST_READERS = 4
"""Clusters, or logins to them, that a process keeps connections to."""

_readers: dict[ConsumerSettings, RangeReader] = {}
"""Spark reuses its Python workers, for one task after the other."""


def read_rows(task: RowTask, wanted: OffsetRange) -> Iterator[Any]:
    """Yield the records of a range as Arrow record batches; see `RangeReader.read`."""
    # kafka-python logs every lost connection as an error; what lasts is raised.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    # One that was left in the middle, as for a LIMIT, has nothing in flight: it is asked again from its own thread.
    reader = _readers.pop(task.consumer, None) or RangeReader(task.consumer, Loop())
    _readers[task.consumer] = reader
    while len(_readers) > MOST_READERS:
        _readers.pop(next(iter(_readers))).close()
    return reader.read(
        wanted, headers=task.headers, fail_on_data_loss=task.fail_on_data_loss, patience_s=task.patience_s
    )
