"""Describes and creates the topics of a cluster; blocking calls for the driver, with many topics per request.

Each call raises ClusterError when the cluster fails to answer and RefusedError when a permission is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.errors import KafkaConnectionError
from kafka.protocol.admin import CreatePartitionsRequest
from kafka.protocol.metadata import MetadataRequest

from twinlog.errors import ClusterError, ThrottledError, TwinlogError
from twinlog.kafka.admin.topics import CREATE_MS, TIMEOUT_S, ask_for_topics, describe_configs, read_entry
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.kafka.retry import MOVING_LEADER, TOPIC_LEADER
from twinlog.model.reach import ClusterReachability
from twinlog.model.topics import ConfigEntry, NewTopic, Refusal, Topic, listed
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

CONTACT_S = 1.0
LEADERS_S = 30.0
"""The seconds that new topics may lack leaders, counted from the last topic that got a leader."""

CHUNK = 100
"""Topics per create request; managed services refuse large requests (KAFKA-19327 names the controller's own limit)."""


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """A cluster's id, as it was formatted, and its brokers as `host:port` of the listener in use."""

    cluster_id: str | None
    brokers: frozenset[str]


Connect = Callable[[str, ClientSettings], "ClusterAdmin"]
"""Makes the connections to a cluster, by its alias; `ClusterAdmin` itself makes the connections of this machine."""


class ClusterAdmin:
    """A cluster for the driver; may be used from several threads.

    Its `loop` brings the clock and the connections. The constructor raises RuntimeError if the system refuses a thread.
    """

    def __init__(self, alias: str, settings: ClientSettings, loop: Loop | None = None) -> None:
        self.alias = alias
        self._closed = False
        self._loop = Loop() if loop is None else loop
        self.clock = self._loop.clock
        self.client = ClusterClient(self._loop, alias, settings)
        self._described: dict[TopicName, Topic] = {}
        """All topics by the last `topics`."""
        self._loop.net.start()

    def call(self, step: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run a coroutine of this cluster's client and wait for it; raises ClusterError after `close`."""
        try:
            return self._loop.run(step, *args)
        except (RuntimeError, KafkaConnectionError) as error:
            if not self._closed:
                raise
            raise ClusterError(f"cluster {self.alias}: its connections were closed") from error

    def connect(self, timeout_s: float = 5.0) -> None:
        self.call(self.client.connect, timeout_s)

    def keep_in_contact(self) -> None:
        """Send a request after `CONTACT_S` seconds of silence, from now on, so that `reach` is current."""
        self._loop.call_threadsafe(lambda: self._loop.spawn(self._keep_in_contact))

    async def _keep_in_contact(self) -> None:
        while True:
            await self._loop.sleep(CONTACT_S)
            if self.client.connected and self.client.contact.heard_s >= CONTACT_S:
                with suppress(TwinlogError):
                    await self.client.refresh([])

    def reach(self) -> ClusterReachability:
        """Whether the cluster answers now, by the outcomes of earlier requests."""
        return self.client.contact.reach()

    def waits(self) -> str | None:
        """The longest wait of an open request, in words; None while answers come. For any thread."""
        node, seconds = self.client.contact.waits() or (None, 0.0)
        if seconds < CONTACT_S:
            return None
        who = f"cluster {self.alias}" if node is None else f"broker {node} of cluster {self.alias}"
        return f"{who} has not answered for {seconds:.0f} s"

    def close(self) -> None:
        self._closed = True
        self.client.close()
        self._loop.net.stop(timeout_ms=1000)
        self._loop.close()

    def identity(self) -> ClusterIdentity:
        """The id and the brokers of the cluster."""
        return self.call(self._identity)

    async def _identity(self) -> ClusterIdentity:
        response = await self.client.send_request(MetadataRequest(topics=[], allow_auto_topic_creation=False))
        brokers = frozenset(f"{broker.host}:{broker.port}" for broker in response.brokers)
        return ClusterIdentity(response.cluster_id, brokers)

    def topics(self) -> dict[TopicName, Topic]:
        """Every topic that this principal may describe."""
        self._described = found = self.call(self._topics, None)
        return found

    def topic_ids(self, topic: TopicName) -> frozenset[str]:
        """The ids of a topic by earlier answers of the cluster; an id may be of an earlier topic."""
        known = self.client.topic(topic), self._described.get(topic)
        return frozenset(str(one.topic_id) for one in known if one is not None and one.topic_id is not None)

    async def _topics(self, names: Sequence[str] | None) -> dict[TopicName, Topic]:
        request = MetadataRequest(
            topics=None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = await self.client.send_request(request)
        return {
            TopicName(topic.name): Topic(
                TopicName(topic.name), len(topic.partitions), topic.topic_id or None, bool(topic.is_internal)
            )
            for topic in response.topics
            if topic.error_code in (Code.NONE, Code.LEADER_NOT_AVAILABLE)
        }

    def configs(self, topics: Iterable[TopicName]) -> dict[TopicName, list[ConfigEntry]]:
        """All settings of topics, each with its source; vanished topics are left out."""
        return self.call(self._configs, list(topics))

    async def _configs(self, topics: list[TopicName]) -> dict[TopicName, list[ConfigEntry]]:
        found, unread = await describe_configs(self.client, topics)
        refused = [name for name, code in unread.items() if error_codes.refused(code)]
        if refused:
            raise self.client.lacks("DESCRIBE_CONFIGS", f"topic {listed(refused)}", "reading its settings")
        return found

    def create_topics(
        self, topics: Sequence[NewTopic], created: Callable[[TopicName], None] = lambda name: None
    ) -> dict[TopicName, Refusal]:
        """Create topics and wait until each topic has a leader; returns the refused topics, with the reason.

        A topic that exists already counts as created. `created(name)` is called, on another thread, for each new topic
        before it has a leader, because the wait for leaders may fail.
        """
        return self.call(self._create, list(topics), created)

    def validate_topics(
        self, topics: Sequence[NewTopic]
    ) -> tuple[dict[TopicName, Refusal], dict[TopicName, list[ConfigEntry]]]:
        """Check `create_topics`: returns its result, and the settings that each topic would have.

        The cluster stays unchanged. Settings are missing if they are hidden from the principal, and before Kafka 2.4
        (KIP-525).
        """
        return self.call(self._send_topics, list(topics), True)

    async def _create(self, topics: list[NewTopic], created: Callable[[TopicName], None]) -> dict[TopicName, Refusal]:
        refused, _ = await self._send_topics(topics, False, created)
        there = [topic.name for topic in topics if topic.name not in refused]
        if there:
            await self._wait_for(there)
        return refused

    async def _send_topics(
        self, topics: list[NewTopic], validate_only: bool, created: Callable[[TopicName], None] = lambda name: None
    ) -> tuple[dict[TopicName, Refusal], dict[TopicName, list[ConfigEntry]]]:
        refused: dict[TopicName, Refusal] = {}
        configs: dict[TopicName, list[ConfigEntry]] = {}
        for start in range(0, len(topics), CHUNK):
            try:
                response = await ask_for_topics(self.client, topics[start : start + CHUNK], validate_only=validate_only)
            except ThrottledError as error:
                # The topics of earlier requests exist.
                throttled = Refusal(Code.THROTTLING_QUOTA_EXCEEDED, str(error))
                return refused | {topic.name: throttled for topic in topics[start:]}, configs
            for topic in response.topics:
                if topic.error_code not in (Code.NONE, Code.TOPIC_ALREADY_EXISTS):
                    refused[TopicName(topic.name)] = self._reason(topic, "CREATE", "creating it")
                elif not validate_only and topic.error_code == Code.NONE:
                    created(TopicName(topic.name))
                elif validate_only and response.API_VERSION >= 5 and topic.configs:
                    configs[TopicName(topic.name)] = [read_entry(entry) for entry in topic.configs]
        return refused, configs

    async def _wait_for(self, names: Collection[TopicName]) -> None:
        """Refresh until every topic has a leader.

        Raises ClusterError `LEADERS_S` seconds after the last topic that got a leader. A single partition with a leader
        is enough: the copier of another partition waits for its leader.
        """
        deadline, left = self.clock.monotonic() + LEADERS_S, len(names)
        tries = 0
        while True:
            found = await self.client.refresh(names)
            hidden = [name for name, topic in found.items() if error_codes.refused(topic.error)]
            if hidden:
                raise self.client.lacks("DESCRIBE", f"topic {listed(hidden)}", "finding its leaders")
            missing = [name for name in names if name not in found or found[name].error or not found[name].leaders]
            if not missing:
                return
            if len(missing) < left:
                deadline, left, tries = self.clock.monotonic() + LEADERS_S, len(missing), 0
            if self.clock.monotonic() > deadline:
                raise ClusterError(f"cluster {self.alias}: topics without a leader: {', '.join(sorted(missing)[:5])}")
            tries += 1
            await self._loop.sleep(TOPIC_LEADER.pause_s(tries))

    def create_partitions(self, counts: Mapping[TopicName, int]) -> dict[TopicName, Refusal]:
        """Raise partition counts; returns the refused topics, with the reason."""
        return self.call(self._create_partitions, counts, False)

    def validate_partitions(self, counts: Mapping[TopicName, int]) -> dict[TopicName, Refusal]:
        """Check `create_partitions`: returns its result; the cluster stays unchanged."""
        return self.call(self._create_partitions, counts, True)

    async def _create_partitions(
        self, counts: Mapping[TopicName, int], validate_only: bool
    ) -> dict[TopicName, Refusal]:
        kind = CreatePartitionsRequest.CreatePartitionsTopic
        topics = [kind(name=name, count=count, assignments=None) for name, count in counts.items()]
        refused: dict[TopicName, Refusal] = {}
        for start in range(0, len(topics), CHUNK):
            request = CreatePartitionsRequest(
                topics=topics[start : start + CHUNK], timeout_ms=CREATE_MS, validate_only=validate_only
            )
            try:
                response = await self.client.ask_controller(request, TIMEOUT_S)
            except ThrottledError as error:
                throttled = Refusal(Code.THROTTLING_QUOTA_EXCEEDED, str(error))
                return refused | {TopicName(topic.name): throttled for topic in topics[start:]}
            for result in response.results:
                if result.error_code != Code.NONE:
                    refused[TopicName(result.name)] = self._reason(result, "ALTER", "adding partitions")
        return refused

    def _reason(self, result: Any, operation: str, purpose: str) -> Refusal:
        code = result.error_code
        if error_codes.refused(code):
            return Refusal(code, str(self.client.lacks(operation, f"topic {result.name}", purpose)))
        return Refusal(code, str(result.error_message or error_codes.explain(code)))

    def offsets(
        self, partitions: Iterable[TopicPartition], *, latest: bool, read_committed: bool = False, log_end: bool = False
    ) -> dict[TopicPartition, int]:
        """First or next offset of each partition that has a leader; with `log_end` the end of the leader's own log.

        The call waits for a leader that is about to begin or to end.
        """
        return self._offsets(partitions, LATEST if latest else EARLIEST, read_committed=read_committed, log_end=log_end)

    def first_since(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        """The first offset of each partition with this timestamp in ms or a later timestamp; -1 if it is absent.

        Raises ClusterError if a partition lacks a leader, because the partition may have a matching record.
        """
        wanted = list(partitions)
        found = self._offsets(wanted, timestamp)
        missing = [part for part in wanted if part not in found]
        if missing:
            raise ClusterError(f"cluster {self.alias}: {listed(map(str, missing))} has no leader")
        return found

    def list_answered_offsets(
        self, partitions: Iterable[TopicPartition], at: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Offsets at EARLIEST, at LATEST or since a timestamp (-1 if absent) of partitions whose leader answers.

        If a broker refuses or fails to answer, the result still has the partitions of the other brokers.
        """
        return self._offsets(partitions, at, read_committed=read_committed, each=True)

    def newest_timestamps(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The newest timestamp of the records of each partition that has a leader, in ms; -1 for an empty partition.

        Markers of transactions count as records. Empty for brokers before Kafka 3.0 (KIP-734).
        """
        wanted = list(partitions)

        async def ask() -> dict[TopicPartition, int]:
            await self.client.refresh({part.topic for part in wanted})
            return await self.client.list_newest_timestamps(wanted)

        return self.call(ask) if wanted else {}

    async def _ask_each(
        self, partitions: Iterable[TopicPartition], at: int, errors: dict[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int]:
        async def ask(asked: list[TopicPartition]) -> dict[TopicPartition, int]:
            try:
                return await self.client.list_offsets(asked, at, read_committed=read_committed, errors=errors)
            except TwinlogError as error:
                log.debug("cluster %s: offsets of %s: %s", self.alias, listed(map(str, asked)), error)
                return {}

        groups = self.client.group_by_leader(partitions)
        answers = await self._loop.gather([self._loop.spawn(ask, asked) for asked in groups.values()])
        return {partition: offset for answer in answers for partition, offset in answer.items()}

    def _offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: int,
        *,
        read_committed: bool = False,
        log_end: bool = False,
        each: bool = False,
    ) -> dict[TopicPartition, int]:
        wanted = list(partitions)

        async def ask() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            deadline = self.clock.monotonic() + MOVING_LEADER.patience_s
            while True:
                left = [part for part in wanted if part not in found]
                await self.client.refresh({part.topic for part in left})
                errors: dict[TopicPartition, int] = {}
                found |= (
                    await self._ask_each(left, at, errors, read_committed)
                    if each
                    else await self.client.list_offsets(
                        left, at, read_committed=read_committed, log_end=log_end, errors=errors
                    )
                )
                if not error_codes.LEADER_MOVES.intersection(errors.values()) or self.clock.monotonic() >= deadline:
                    return found
                await self._loop.sleep(MOVING_LEADER.first_s)

        if not wanted:
            return {}
        return self.call(ask)


def both_clusters(flow: FlowSettings, connect: Connect = ClusterAdmin) -> tuple[ClusterAdmin, ClusterAdmin]:
    """Source and target of a flow, before their first request.

    If the system refuses a thread or a file for the target, the source is closed. Raises RuntimeError or OSError then.
    """
    source = connect(flow.source, flow.source_admin.client)
    try:
        return source, connect(flow.target, flow.target_admin.client)
    except (RuntimeError, OSError):
        source.close()
        raise
