"""The transform of a flow in a task, for the copier, and the appends for the partitions that get its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from twinlog.errors import TransformError
from twinlog.kafka.producer.appends import Append, CopyRules, Prepare, RoutedRows
from twinlog.model.call import TransformCall
from twinlog.model.topic_names import HeartbeatNames, check_name, source_alias
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of
from twinlog.transforms.build import build, sql_transform
from twinlog.transforms.contract import Transform, offsets_of
from twinlog.transforms.fetch_transformer import FetchTransformer
from twinlog.transforms.row_appends import place

SURE_S = 60.0
"""The seconds for which an answer of the target about a topic's number of partitions counts."""


class LackingPartitions:
    """Known numbers of partitions of target topics that lack a partition; `now()` is monotonic, in seconds.

    The numbers come from answers of the target to this question alone: any other topic may have new partitions
    meanwhile.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sure: dict[TopicName, tuple[int, float]] = {}

    def confirm_partitions(self, topic: TopicName, partitions: int) -> None:
        """Note that the target has just reported this number of partitions of the topic."""
        self._sure = self._still_sure()
        self._sure[topic] = partitions, self._now()

    def check(self, rows: Any) -> None:
        """Raise TransformError for rows whose partition is missing."""
        for topic, (partitions, _) in self._still_sure().items():
            numbers = rows.column("partition").filter(pc.equal(rows.column("topic"), pa.scalar(topic, pa.string())))
            most = pc.max(numbers).as_py()
            if most is not None and most >= partitions:
                raise TransformError(f"it routes records to partition {most} of {topic}, which has {partitions}")

    def _still_sure(self) -> dict[TopicName, tuple[int, float]]:
        now = self._now()
        return {topic: known for topic, known in self._sure.items() if now - known[1] < SURE_S}


def check_topic(name: str, source: str, heartbeats: HeartbeatNames, *, same_cluster: bool) -> None:
    """Raise TransformError if records of topic `source` must stay out of topic `name`."""
    check_name(name)
    if heartbeats.is_heartbeats(TopicName(name)):
        raise TransformError(f"it routes records to {name}, the topic of mirrored heartbeats")
    if same_cluster and name == source:
        raise TransformError(f"it routes records to {name}, their own source topic: they would go round for ever")


def check_within_cluster(name: str, flow: FlowSettings) -> None:
    """Raise TransformError if a flow within a single cluster might read the records again that it routes to `name`.

    A flow leaves out topics that its policy takes for its own copies. If the names of topics alone decide, the driver
    knows all routes and has looked at them.
    """
    known = flow.transform is None or flow.transform.routes_are_known
    if not known and source_alias(TopicName(name), flow.separator) != flow.source:
        raise TransformError(
            f"it routes records to {name}: within a cluster the flow may read them there again; names that begin "
            f"{flow.source}{flow.separator} are its own copies, which it leaves out",
            message_id="TW-TOPIC-22",
        )


class TransformLoader:
    """Imports the transform of a flow; raises TransformError if it is missing here.

    `partitions(topic)` returns how many partitions a topic of the target has, None while that is unknown. `now()` is
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
        self.call: TransformCall | None = None
        """The running call of the transform; any thread may read it."""
        self._sql = sql_transform(settings)
        self._query_key = flow.written_as(key_of(TransformSettings, "sql"))
        try:
            self._function = build(settings, self._sql)
        except TransformError as error:
            raise TransformError(
                f"{flow.key('transform')} is unusable in this task: {error}", message_id="TW-TRANSFORM-01"
            ) from error

    @property
    def trouble(self) -> str | None:
        """Why the transform is out of service, for example because SQL's JVM is missing; None when they can."""
        return None if self._sql is None else self._sql.trouble

    def start(self) -> None:
        """Start the JVM for SQL, which takes some seconds: on a thread that may wait.

        Raises TransformError for an invalid query, EngineError if Spark is missing, and EngineLostError if the next try
        may succeed.
        """
        if self._sql is None or self._sql.trouble is None:
            return
        try:
            self._sql.start()
        except TransformError as error:
            raise TransformError(f"{self._query_key} is unusable: {error}", message_id="TW-SQL-02") from error

    def close(self) -> None:
        """Stop changing records."""
        if self._sql is not None:
            self._sql.close()

    def make_preparer(self, source: TopicPartition, remote: TopicPartition) -> Prepare:
        """The function that prepares the fetches of a partition."""
        return FetchTransformer(
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
        """The transform, which notes its running call."""

        def noting(rows: Any) -> Any:
            self.call = TransformCall(self._now(), source, SourceOffset(int(offsets_of(rows)[0])), rows.num_rows)
            try:
                return self._function(rows)
            finally:
                self.call = None

        return noting

    def check_route(self, topic: TopicName, source: TopicPartition, *, same_cluster: bool) -> None:
        """Raise TransformError if rows of a partition must stay out of a topic."""
        check_topic(topic, source.topic, self._flow.heartbeat_names, same_cluster=same_cluster)
        if same_cluster:
            check_within_cluster(topic, self._flow)

    def confirm_partitions(self, topic: TopicName, partitions: int) -> None:
        """Note the target's new answer: the transform fails on records for partitions beyond this number."""
        self._lacking.confirm_partitions(topic, partitions)

    def place_rows(
        self, routed: RoutedRows, source: TopicPartition, partitions: int, rules: CopyRules
    ) -> dict[int, list[Append]]:
        """The appends of routed rows by the partition of their topic. Raises NoPartitionError."""
        return place(routed, source, partitions, rules)
