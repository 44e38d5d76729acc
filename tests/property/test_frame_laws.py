"""Frames: what is sent is what kafka-python would send, and what is received is whole however it arrives."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaConnectionError, KafkaProtocolError
from kafka.protocol.producer import ProduceRequest

from twinlog.kafka.loop import Loop
from twinlog.kafka.transport import SCRATCH_BYTES, PlainTransport
from twinlog.kafka.wire import PRODUCE_VERSION, FrameParser, RawProduce

LIMIT = 200_000

anything = settings(deadline=None)

names = st.text(min_size=1, max_size=200)
batches = st.dictionaries(st.integers(0, 2**31 - 1), st.binary(min_size=1, max_size=300), min_size=1, max_size=4)


@anything
@given(
    topics=st.dictionaries(names, batches, min_size=1, max_size=3),
    acks=st.sampled_from([-1, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    transactional_id=st.none() | names,
    correlation_id=st.integers(0, 2**31 - 1),
    client_id=st.text(max_size=300),
)
def test_a_produce_request_has_kafka_pythons_bytes(
    topics: dict[str, dict[int, bytes]],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
    correlation_id: int,
    client_id: str,
) -> None:
    kind = ProduceRequest.TopicProduceData
    theirs = ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            kind(
                name=topic,
                partition_data=[kind.PartitionProduceData(index=part, records=data) for part, data in parts.items()],
            )
            for topic, parts in topics.items()
        ],
        version=PRODUCE_VERSION,
    )
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    ours = RawProduce(
        {topic: list(parts.items()) for topic, parts in topics.items()},
        acks=acks,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )
    assert ours.frame(correlation_id, client_id) == theirs.encode(framed=True, header=True)
    assert ours.header == theirs.header


class Receiver:
    """Stands where a connection would."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def data_received(self, frame: bytearray) -> None:
        self.frames.append(bytes(frame))

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing to do."""


class Road:
    """A socket pair with a frame transport at one end; `send` delivers at once."""

    def __init__(self, net: Any) -> None:
        near, self.far = socket.socketpair()
        near.setblocking(False)
        self.receiver = Receiver()
        self.transport = PlainTransport(net, near, host="here")
        self.transport._prepare_frames(LIMIT, lambda: True)
        self.transport._protocol = self.receiver

    def send(self, data: bytes) -> Exception | None:
        """What reading it came to; None when all is well."""
        while data:
            sent = self.far.send(data[:50_000])
            data = data[sent:]
            error = self.transport._receive()
            if error is not None:
                return error
        return None


@contextmanager
def road() -> Iterator[Road]:
    loop = Loop()
    road = Road(loop.net)
    try:
        yield road
    finally:
        road.far.close()
        road.transport.abort()
        loop.close()


def framed(body: bytes) -> bytes:
    """A frame as a broker sends it."""
    return struct.pack(">i", len(body)) + body


sizes = st.sampled_from([0, 1, 3, 4, 5, 100, SCRATCH_BYTES - 4, SCRATCH_BYTES, SCRATCH_BYTES + 1, LIMIT])


@anything
@given(sizes=st.lists(sizes, max_size=5), cuts=st.lists(st.integers(0, 5 * LIMIT), max_size=12))
def test_frames_are_whole_however_they_arrive(sizes: list[int], cuts: list[int]) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(map(framed, bodies))
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    with road() as way:
        for begin, end in itertools.pairwise(places):
            assert way.send(stream[begin:end]) is None
        assert way.receiver.frames == bodies


@pytest.mark.parametrize("size", [-1, LIMIT + 1, 2**31 - 1])
def test_an_impossible_length_ends_the_connection(size: int) -> None:
    with road() as way:
        assert way.send(framed(b"good")) is None
        error = way.send(struct.pack(">i", size))
        assert isinstance(error, KafkaProtocolError)
        assert way.receiver.frames == [b"good"]


def test_the_end_of_the_stream_ends_the_connection() -> None:
    with road() as way:
        way.send(framed(b"good")[:-1])
        way.far.shutdown(socket.SHUT_WR)
        assert isinstance(way.transport._receive(), KafkaConnectionError)
        assert way.receiver.frames == []


def test_an_answer_to_another_request_ends_the_connection() -> None:
    parser = FrameParser(client_id="here", receive_message_max_bytes=LIMIT)
    sent = parser.send_request(RawProduce({"t": [(0, b"batch")]}))
    with pytest.raises(KafkaProtocolError, match="correlation id"):
        parser.receive_bytes(bytearray(struct.pack(">ib", sent + 1, 0)))
