"""A blocking connection to a broker that costs next to nothing: for log ends and for the brokers' own limit."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from twinlog.kafka.protocol.fetch import read_fetch_response

CLIENT_ID = "bench"
ANSWER_S = 60.0
"""A broker that is silent this long is taken for dead."""
FETCH_VERSION = 12
_LIST_OFFSETS_VERSION = 7
_SIZE = struct.Struct(">i")
_LATEST = -1


class Connection:
    """One TCP connection; requests go out and answers come back in order."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = bytearray(_SIZE.size)
        self._buffer = bytearray(1 << 20)

    def send(self, frame: bytes | bytearray) -> None:
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """One answer without its length; the memory is used again by the next call."""
        self._fill(memoryview(self._head))
        (size,) = _SIZE.unpack(self._head)
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        answer = memoryview(self._buffer)[:size]
        self._fill(answer)
        return answer

    def _fill(self, view: memoryview) -> None:
        while view:
            received = self._socket.recv_into(view)
            if not received:
                raise HarnessError("a broker closed the connection")
            view = view[received:]

    def close(self) -> None:
        self._socket.close()


def encoded(request: Any) -> bytes:
    """A request of kafka-python as a whole frame."""
    request.with_header(correlation_id=0, client_id=CLIENT_ID)
    return bytes(request.encode(header=True, framed=True))


def fetch_frame(topic: str, positions: Mapping[int, int], partition_bytes: int) -> bytes:
    """A fetch outside of any session (version 12)."""
    topic_type = FetchRequest.FetchTopic
    partition_type = topic_type.FetchPartition
    partitions = [
        partition_type(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes,
        )
        for partition, offset in positions.items()
    ]
    return encoded(
        FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=partition_bytes * len(positions),
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic_type(topic=topic, partitions=partitions)],
            forgotten_topics_data=[],
            rack_id="",
            version=FETCH_VERSION,
        )
    )


def fetched(answer: memoryview) -> dict[int, memoryview]:
    """Partition to the records in an answer to `fetch_frame`."""
    body = read_fetch_response(answer, 5, FETCH_VERSION)
    parts = [part for _, topic in body.topics for part in topic]
    errors = {part.partition: part.error for part in parts if part.error} or body.error_code
    if errors:
        raise HarnessError(f"a fetch was answered with errors: {errors}")
    return {part.partition: part.records for part in parts}


def leaders(cluster: KafkaCluster, topic: str) -> dict[int, str]:
    """The address of the broker that leads each partition."""
    found = cluster.clients.admin().list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
    return {part: f"127.0.0.1:{cluster.brokers[metadata.leader].ports.plaintext}" for part, metadata in found.items()}


class EndWatch:
    """Asks for the log ends of one topic, in one small request to each broker: only its leader knows that of a
    partition, and a remote topic may not exist yet."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        kind = ListOffsetsRequest.ListOffsetsTopic
        self._connections = [Connection(address) for address in bootstrap.split(",")]
        self._frame = encoded(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                topics=[
                    kind(
                        name=topic,
                        partitions=[
                            kind.ListOffsetsPartition(partition_index=part, current_leader_epoch=-1, timestamp=_LATEST)
                            for part in range(partitions)
                        ],
                    )
                ],
                version=_LIST_OFFSETS_VERSION,
            )
        )

    def ends(self) -> dict[int, int]:
        """Partition to log end offset; 0 where there is no such partition yet."""
        for connection in self._connections:
            connection.send(self._frame)
        found: dict[int, int] = {}
        for connection in self._connections:
            # After the correlation id and the (empty) tags of the response's header.
            answer = ListOffsetsResponse.decode(connection.receive()[5:], version=_LIST_OFFSETS_VERSION)
            for part in (part for topic in answer.topics for part in topic.partitions):
                end = part.offset if part.error_code == 0 else 0
                found[part.partition_index] = max(found.get(part.partition_index, 0), end)
        return found

    def total(self) -> int:
        return sum(self.ends().values())

    def close(self) -> None:
        for connection in self._connections:
            connection.close()
