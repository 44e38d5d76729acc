"""Consumer groups' committed offsets, written and read with a client that is not twinlog's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.wait import wait_for

DEADLINE_S = 30.0
AT_ONCE = 100
"""Requests in flight while many groups are written or read."""

_COORDINATOR_MOVES = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}

_NOBODY_ANSWERS = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._WAIT_COORD,
    KafkaError._RESOLVE,
}
LOOK_S = 5.0

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group committed for one partition; `offset` is that of the next record it wants."""

    offset: int
    metadata: str = ""


Offsets = dict[Place, Committed]


def commit_offsets(cluster: KafkaCluster, offsets: Mapping[str, Mapping[Place, Committed | int]]) -> None:
    """Commit for groups (created by that) that have no active members; raises KafkaException or HarnessError.

    While the coordinator of a group is about to be found or to load, it is tried again.
    """
    admin = cluster.clients.admin()
    left = set(offsets)

    def done() -> bool:
        for some in _portions(sorted(left)):
            _wait_for_coordinator(cluster, some[0])
            left.difference_update(set(some) - set(_commit(admin, {group: offsets[group] for group in some})))
        return not left

    wait_for(done, DEADLINE_S, f"{cluster.name} takes the offsets of {len(offsets)} groups")


def _commit(admin: AdminClient, offsets: Mapping[str, Mapping[Place, Committed | int]]) -> list[str]:
    """The groups whose offsets have to be committed again."""
    futures: list[Future[ConsumerGroupTopicPartitions]] = []
    for group, committed in offsets.items():
        request = [ConsumerGroupTopicPartitions(group, [_place(place, one) for place, one in committed.items()])]
        futures += admin.alter_consumer_group_offsets(request, request_timeout=DEADLINE_S).values()
    again = []
    for group, future in zip(offsets, futures, strict=True):
        try:
            answers = future.result(DEADLINE_S).topic_partitions or []
        except KafkaException as error:
            errors = [error.args[0]]
        else:
            errors = [answer.error for answer in answers if answer.error is not None]
        if any(error.code() not in _COORDINATOR_MOVES for error in errors):
            raise HarnessError(f"offsets of group {group} were refused: {errors}")
        if errors:
            again.append(group)
    return again


def groups(cluster: KafkaCluster) -> list[str]:
    """Names of all groups, sorted."""
    admin = cluster.clients.admin()
    listed = admin.list_consumer_groups(request_timeout=DEADLINE_S).result(DEADLINE_S)
    return sorted(group.group_id for group in listed.valid)


def group_offsets(cluster: KafkaCluster, names: Iterable[str] | None = None) -> dict[str, Offsets]:
    """What each group (default: all) has committed; a group without offsets has an empty mapping."""
    # A client of its own: librdkafka copies metadata without its end (rd_kafka_topic_partition_copy), and memory that
    # served another answer before shows after it.
    admin = AdminClient(cluster.client_config())
    found: dict[str, Offsets] = {}
    for some in _portions(groups(cluster) if names is None else names):
        _wait_for_coordinator(cluster, some[0])
        futures = {
            name: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)], request_timeout=DEADLINE_S)
            for name in some
        }
        for name, future in futures.items():
            listed = future[name].result(DEADLINE_S).topic_partitions or []
            wrong = [one.error for one in listed if one.error is not None]
            if wrong:
                raise HarnessError(f"offsets of group {name} cannot be read: {wrong}")
            found[name] = {
                (one.topic, one.partition): Committed(one.offset, one.metadata or "")
                for one in listed
                if one.offset >= 0
            }
    return found


def _wait_for_coordinator(cluster: KafkaCluster, group: str) -> None:
    """Librdkafka ends the process, with an assertion in rd_kafka_enq_once_del_source_return, when the time of an admin
    request is over while it still looks for the coordinator of a group. Consumers only get an error then."""
    consumer = Consumer({**cluster.client_config(), "group.id": group})

    def answers() -> bool:
        try:
            consumer.committed([TopicPartition("none", 0)], timeout=LOOK_S)
        except KafkaException as error:
            # Whatever is refused comes again, and is told, with the request itself.
            return error.args[0].code() not in {*_COORDINATOR_MOVES, *_NOBODY_ANSWERS}
        return True

    try:
        wait_for(answers, DEADLINE_S, f"{cluster.name} has a coordinator for group {group}")
    finally:
        consumer.close()


def _place(place: Place, committed: Committed | int) -> TopicPartition:
    if isinstance(committed, int):
        committed = Committed(committed)
    return TopicPartition(*place, committed.offset, metadata=committed.metadata)


def _portions(names: Iterable[str]) -> Iterable[list[str]]:
    every = list(names)
    return (every[begin : begin + AT_ONCE] for begin in range(0, len(every), AT_ONCE))
