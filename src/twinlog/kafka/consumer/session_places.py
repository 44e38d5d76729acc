"""Divides the partitions of a broker among several fetch sessions, each with a connection of its own.

A record ends the wait of its session's fetch, and the broker looks at each partition of that session several times for
it (Kafka classes ReplicaManager, DelayedFetch). With 1,000 partitions such an answer costs the broker milliseconds of
processor time, with 250 partitions a quarter of that. A broker handles a request of a connection at a time.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from twinlog.kafka.consumer.nearest import NearestReplicas
from twinlog.model.types import TopicPartition

MANY = 250
"""With more partitions a broker has several sessions."""

SESSIONS = 4
"""The sessions of a broker with many partitions: each idle session costs two requests a second."""

NEIGHBOURS = 16
"""So many partitions of a topic have the same session, because records of a topic often arrive together."""


class SessionPlace(NamedTuple):
    """A broker, and the number of the data connection that a fetch session of the broker has."""

    node: int
    connection: int


class SessionPlaces:
    """The session of each partition; `nearest` tells the broker that the partition is read from.

    A broker has a single session until `divide` has seen many partitions; from then on the broker has `most` sessions.
    """

    def __init__(self, nearest: NearestReplicas, most: int) -> None:
        self._nearest = nearest
        self._most = most
        self._places: dict[int, tuple[SessionPlace, ...]] = {}

    def divide(self, partitions: Iterable[TopicPartition]) -> None:
        """Give several sessions to each broker with many of these partitions."""
        for node, count in Counter(map(self._nearest.node, partitions)).items():
            if node is not None and count > MANY:
                self._places[node] = tuple(SessionPlace(node, number) for number in range(self._most))

    def place(self, partition: TopicPartition) -> SessionPlace | None:
        """The session of a partition; None while its leader is unknown."""
        node = self._nearest.node(partition)
        if node is None:
            return None
        places = self._places.get(node)
        if places is None:
            self._places[node] = places = (SessionPlace(node, 0),)
        if len(places) == 1:
            return places[0]
        # A sum of the name, because hashes of strings have another value in each process.
        first = zlib.crc32(partition.topic.encode())
        return places[(first + partition.partition // NEIGHBOURS) % len(places)]
