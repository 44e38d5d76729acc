"""The topics of a virtual cluster: their logs, leaders, ids and settings, and how topics are created."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from harness.virtual.faults import Faults
from harness.virtual.log import VirtualLog
from harness.virtual.requests import CREATE_PARTITIONS, CREATE_TOPICS, DESCRIBE_CONFIGS
from twinlog.kafka.protocol.error_codes import Code

with warnings.catch_warnings():
    # kafka-python reads its message schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol import admin, metadata

MAX_MESSAGE_BYTES = 1_048_588

Refuse = Callable[[str, Mapping[str, str]], tuple[int, str]]
"""Error code and text, for the name of a topic and its settings; 0 where there is nothing wrong."""


@dataclass(slots=True)
class Led:
    """A partition: its log and who leads it, None for nobody."""

    log: VirtualLog
    leader: int | None


class VirtualTopics:
    """The partitions of one cluster, whose brokers are `nodes`; some are `down`."""

    def __init__(self, name: str, nodes: Sequence[int], down: Set[int], faults: Faults) -> None:
        self.parts: dict[tuple[str, int], Led] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.ids: dict[str, uuid.UUID] = {}
        self.refusals: dict[str, tuple[int, str]] = {}
        """Why topics that are to be created or to grow are refused: error code and text, by name."""
        self.hidden: set[str] = set()
        """Topics on which the login has no right."""
        self.refuse: Refuse = lambda _topic, _configs: (0, "")
        """The cluster's policy for topics that are to be created: what is wrong with one, given its settings."""
        self._name = name
        self._nodes = nodes
        self._down = down
        self._faults = faults
        self._created = 0

    def create(self, topic: str, partitions: int, configs: dict[str, str]) -> None:
        """Partitions are led by one broker after the other."""
        self._created += 1
        self.ids[topic] = uuid.uuid5(uuid.NAMESPACE_OID, f"{self._name} {topic} {self._created}")
        self.configs[topic] = {"max.message.bytes": str(MAX_MESSAGE_BYTES), **configs}
        self.grow(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            if (topic, number) not in self.parts:
                self.parts[topic, number] = Led(VirtualLog(), self._nodes[number % len(self._nodes)])

    def delete(self, topic: str) -> None:
        for place in [place for place in self.parts if place[0] == topic]:
            del self.parts[place]
        del self.configs[topic], self.ids[topic]

    def count(self, topic: str) -> int:
        """How many partitions a topic has; 0 when there is none."""
        return sum(name == topic for name, _ in self.parts)

    def log(self, topic: str, partition: int = 0) -> VirtualLog:
        return self.parts[topic, partition].log

    # Requests.

    def metadata(self, _node: int, request: Any, code: int) -> Any:
        kind = metadata.MetadataResponse
        there = sorted({topic for topic, _ in self.parts})
        by_id = {uuid_: name for name, uuid_ in self.ids.items()}
        wanted = (
            [name for name in there if name not in self.hidden]
            if request.topics is None
            else [
                by_id.get(topic.topic_id, topic.topic_id) if topic.name is None else topic.name
                for topic in request.topics
            ]
        )
        return kind(
            throttle_time_ms=0,
            brokers=[
                kind.MetadataResponseBroker(node_id=node, host=f"{self._name}-{node}", port=9092, rack=None)
                for node in self._nodes
                if node not in self._down
            ],
            cluster_id=self._name,
            controller_id=self._nodes[0],
            topics=[self._described(name, code) for name in wanted],
        )

    def _described(self, name: str | uuid.UUID, code: int) -> Any:
        kind = metadata.MetadataResponse.MetadataResponseTopic
        if isinstance(name, uuid.UUID):
            return kind(error_code=Code.UNKNOWN_TOPIC_ID, name=None, topic_id=name, is_internal=False, partitions=[])
        code = code or (Code.TOPIC_AUTHORIZATION_FAILED if name in self.hidden else 0)
        parts = [(number, part) for (topic, number), part in sorted(self.parts.items()) if topic == name and not code]
        return kind(
            error_code=code or (0 if parts else Code.UNKNOWN_TOPIC_OR_PARTITION),
            name=name,
            topic_id=None if code else self.ids.get(name),
            is_internal=False,
            partitions=[
                kind.MetadataResponsePartition(
                    error_code=0 if part.leader else Code.LEADER_NOT_AVAILABLE,
                    partition_index=number,
                    leader_id=part.leader or -1,
                    leader_epoch=part.log.epoch,
                    replica_nodes=self._nodes,
                    isr_nodes=self._nodes,
                    offline_replicas=[],
                )
                for number, part in parts
            ],
        )

    def led(self, node: int, topic: str, partition: int, epoch: int = -1) -> tuple[int, VirtualLog]:
        """The log, and why this broker cannot give it out (0 if it can)."""
        part = self.parts.get((topic, partition))
        if topic in self.hidden:
            return Code.TOPIC_AUTHORIZATION_FAILED, VirtualLog()
        if part is None:
            return Code.UNKNOWN_TOPIC_OR_PARTITION, VirtualLog()
        if part.leader != node:
            return Code.NOT_LEADER_OR_FOLLOWER, part.log
        if epoch >= 0 and epoch != part.log.epoch:
            return (Code.FENCED_LEADER_EPOCH if epoch < part.log.epoch else Code.UNKNOWN_LEADER_EPOCH), part.log
        return Code.NONE, part.log

    def describe_configs(self, _node: int, request: Any, code: int) -> Any:
        kind = admin.DescribeConfigsResponse
        result = kind.DescribeConfigsResult
        return kind(
            throttle_time_ms=0,
            results=[
                result(
                    error_code=code or self._faults.code(DESCRIBE_CONFIGS, asked.resource_name) or self._seen(asked),
                    error_message=None,
                    resource_type=asked.resource_type,
                    resource_name=asked.resource_name,
                    configs=[
                        result.DescribeConfigsResourceResult(
                            name=name,
                            value=value,
                            read_only=False,
                            config_source=1,
                            is_sensitive=False,
                            synonyms=[],
                            config_type=0,
                            documentation=None,
                        )
                        for name, value in self.configs.get(asked.resource_name, {}).items()
                    ],
                )
                for asked in request.resources
            ],
        )

    def create_topics(self, _node: int, request: Any, code: int) -> Any:
        kind = admin.CreateTopicsResponse
        results = []
        for topic in request.topics:
            error, text = self._refusal(CREATE_TOPICS, topic.name, code)
            if not error and self.count(topic.name):
                error = Code.TOPIC_ALREADY_EXISTS
            configs = {one.name: one.value for one in topic.configs}
            if not error:
                error, text = self.refuse(topic.name, configs)
            if not error and not request.validate_only:
                self.create(topic.name, topic.num_partitions, configs)
            results.append(
                kind.CreatableTopicResult(
                    name=topic.name,
                    error_code=error,
                    error_message=text,
                    topic_config_error_code=0,
                    num_partitions=topic.num_partitions,
                    replication_factor=1,
                    configs=[],
                )
            )
        return kind(throttle_time_ms=0, topics=results)

    def create_partitions(self, _node: int, request: Any, code: int) -> Any:
        kind = admin.CreatePartitionsResponse
        results = []
        for topic in request.topics:
            error, text = self._refusal(CREATE_PARTITIONS, topic.name, code)
            if not error:
                self.grow(topic.name, topic.count)
            results.append(kind.CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=text))
        return kind(throttle_time_ms=0, results=results)

    def _seen(self, asked: Any) -> int:
        return Code.TOPIC_AUTHORIZATION_FAILED if asked.resource_name in self.hidden else 0

    def _refusal(self, key: int, topic: str, code: int) -> tuple[int, str | None]:
        error, text = self.refusals.get(topic, (0, None))
        return (code or self._faults.code(key, topic) or error), text
