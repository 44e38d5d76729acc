"""Partitions that a transform routes records to and that their topics do not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import TransformError
from twinlog.model.types import TopicName

SURE_S = 60.0
"""For so long it counts how many partitions a topic had when the target was asked, unless it is asked again."""


class LackingPartitions:
    """What is sure of topics of the target that were found to lack a partition; `now()` is monotonic, in seconds.

    Of a topic that the target was not asked about for this nothing is sure: it may have got partitions meanwhile.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sure: dict[TopicName, tuple[int, float]] = {}

    def confirm(self, topic: TopicName, partitions: int) -> None:
        """The target was just asked, and a topic has so many."""
        self._sure = self._still_sure()
        self._sure[topic] = partitions, self._now()

    def check(self, rows: Any) -> None:
        """Raise TransformError where rows are for a partition that is not there."""
        for topic, (partitions, _) in self._still_sure().items():
            numbers = rows.column("partition").filter(pc.equal(rows.column("topic"), pa.scalar(topic, pa.string())))
            most = pc.max(numbers).as_py()
            if most is not None and most >= partitions:
                raise TransformError(f"it routes records to partition {most} of {topic}, which has {partitions}")

    def _still_sure(self) -> dict[TopicName, tuple[int, float]]:
        now = self._now()
        return {topic: known for topic, known in self._sure.items() if now - known[1] < SURE_S}
