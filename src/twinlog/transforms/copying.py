"""The transform of a flow in a task: what a copier asks of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twinlog.errors import TransformError
from twinlog.kafka.producer.appends import Append, CopyRules, Prepare, RoutedRows
from twinlog.model.call import Call
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of
from twinlog.transforms.build import build, sql_transform
from twinlog.transforms.contract import offsets_of
from twinlog.transforms.function import Transform
from twinlog.transforms.lacking_partitions import LackingPartitions
from twinlog.transforms.road import TransformedRoad
from twinlog.transforms.routing import check_topic, check_within_cluster, place


class Transforming:
    """Imports the transform of a flow, which raises TransformError where it is not found here.

    `partitions(topic)` is how many partitions a topic of the target has, None while that is unknown. `now()` is
    monotonic, in seconds.
    """

    def __init__(
        self,
        flow: FlowSettings,
        settings: TransformSettings,
        partitions: Callable[[TopicName], int | None],
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self._name = flow.name
        self._flow = flow
        self._settings = settings
        self._partitions = partitions
        self._lacking = LackingPartitions(now)
        self.call: Call | None = None
        """What the transform works on; others may read it from their threads."""
        self._sql = sql_transform(settings)
        self._query_key = flow.written_as(key_of(TransformSettings, "sql"))
        try:
            self._function = build(settings, self._sql)
        except TransformError as error:
            raise TransformError(f"{flow.key('transform')} cannot be used in this task: {error}") from error

    @property
    def trouble(self) -> str | None:
        """Why records cannot be changed, as where SQL has no JVM; None when they can."""
        return None if self._sql is None else self._sql.trouble

    def start(self) -> None:
        """Start what SQL needs, which takes some seconds: on a thread that may wait.

        Raises TransformError for a query that is none, EngineError where there is no Spark, and EngineLostError where
        the next try may succeed.
        """
        if self._sql is None or self._sql.trouble is None:
            return
        try:
            self._sql.start()
        except TransformError as error:
            raise TransformError(f"{self._query_key} cannot be used: {error}") from error

    def close(self) -> None:
        """Change no more records."""
        if self._sql is not None:
            self._sql.close()

    def road(self, source: TopicPartition, remote: TopicPartition) -> Prepare:
        """What prepares the fetches of a partition."""
        return TransformedRoad(
            self._noting(source),
            self._settings,
            self._name,
            source,
            remote,
            self._partitions,
            self._now,
            self._lacking.check,
        ).prepare

    def _noting(self, source: TopicPartition) -> Transform:
        """The transform, which notes what it works on."""

        def noting(rows: Any) -> Any:
            self.call = Call(self._now(), source, SourceOffset(int(offsets_of(rows)[0])), rows.num_rows)
            try:
                return self._function(rows)
            finally:
                self.call = None

        return noting

    def check(self, topic: TopicName, source: TopicPartition, *, same_cluster: bool) -> None:
        """Raise TransformError where rows of a partition cannot be routed to a topic."""
        check_topic(topic, source.topic, self._flow.heartbeat_names, same_cluster=same_cluster)
        if same_cluster:
            check_within_cluster(topic, self._flow)

    def confirm(self, topic: TopicName, partitions: int) -> None:
        """The target was just asked, and a topic has so many: the transform fails on records for others."""
        self._lacking.confirm(topic, partitions)

    def place(
        self, routed: RoutedRows, source: TopicPartition, partitions: int, rules: CopyRules
    ) -> dict[int, list[Append]]:
        """The appends of routed rows by the partition of their topic. Raises NoPartitionError."""
        return place(routed, source, partitions, rules)
