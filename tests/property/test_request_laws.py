"""Requests that are written here have kafka-python's bytes, and responses that are read here its meaning."""

from __future__ import annotations

import uuid

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from twinlog.kafka.protocol.fetch import FetchPosition, RawFetch
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.model.types import TopicName

anything = settings(deadline=None)

names = st.text(min_size=1, max_size=200)
batches = st.dictionaries(st.integers(0, 2**31 - 1), st.binary(min_size=1, max_size=300), min_size=1, max_size=4)


@anything
@given(
    version=st.sampled_from([7, 8, 9]),
    topics=st.dictionaries(names, batches, min_size=1, max_size=3),
    acks=st.sampled_from([-1, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    transactional_id=st.none() | names,
    correlation_id=st.integers(0, 2**31 - 1),
    client_id=st.text(max_size=300),
)
def test_a_produce_request_has_kafka_pythons_bytes(
    version: int,
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
        version=version,
    )
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    ours = RawProduce(
        {topic: list(parts.items()) for topic, parts in topics.items()},
        acks=acks,
        timeout_ms=timeout_ms,
        transactional_id=transactional_id,
    )
    ours.negotiate_version({0: (0, version)})
    assert ours.frame(correlation_id, client_id) == theirs.encode(framed=True, header=True)


int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
topic_keys = st.tuples(names.map(TopicName), st.none() | st.uuids().filter(lambda found: found.int != 0))
positions = st.builds(
    FetchPosition, offset=int64, max_bytes=int32, last_epoch=int32, leader_epoch=int32, topic_id=st.none()
)


@anything
@given(
    version=st.sampled_from([10, 11, 12, 13]),
    limits=st.tuples(int32, int32, int32),
    read_committed=st.booleans(),
    session=st.tuples(int32, int32),
    topics=st.dictionaries(topic_keys, st.lists(st.tuples(int32, positions), max_size=3), max_size=3),
    forgotten=st.dictionaries(topic_keys, st.lists(int32, max_size=3), max_size=3),
    rack=st.text(max_size=200),
    correlation_id=st.integers(0, 2**31 - 1),
    client_id=st.text(max_size=300),
)
def test_a_fetch_request_has_kafka_pythons_bytes(
    version: int,
    limits: tuple[int, int, int],
    read_committed: bool,
    session: tuple[int, int],
    topics: dict[tuple[TopicName, uuid.UUID | None], list[tuple[int, FetchPosition]]],
    forgotten: dict[tuple[TopicName, uuid.UUID | None], list[int]],
    rack: str,
    correlation_id: int,
    client_id: str,
) -> None:
    kind = FetchRequest.FetchTopic
    max_wait_ms, min_bytes, max_bytes = limits
    theirs = FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(read_committed),
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            kind(
                topic=name,
                topic_id=topic_id,
                partitions=[
                    kind.FetchPartition(
                        partition=number,
                        current_leader_epoch=at.leader_epoch,
                        fetch_offset=at.offset,
                        **({"last_fetched_epoch": at.last_epoch} if version >= 12 else {}),
                        log_start_offset=-1,
                        partition_max_bytes=at.max_bytes,
                    )
                    for number, at in partitions
                ],
            )
            for (name, topic_id), partitions in topics.items()
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
            for (name, topic_id), numbers in forgotten.items()
        ],
        **({"rack_id": rack} if version >= 11 else {}),
        version=version,
    )
    theirs.with_header(correlation_id=correlation_id, client_id=client_id)
    ours = RawFetch(version, *limits, read_committed, *session, topics, forgotten, rack)
    assert ours.frame(correlation_id, client_id) == theirs.encode(framed=True, header=True)


messages = st.none() | st.text(max_size=200)
record_errors = st.lists(st.tuples(int32, messages), max_size=3)
answers = st.tuples(st.integers(-1, 130), int64, int64, int64, record_errors, messages)


@anything
@given(
    version=st.sampled_from([7, 8, 9]),
    topics=st.dictionaries(names, st.dictionaries(int32, answers, max_size=3), max_size=3),
    throttle_time_ms=int32,
    before=st.binary(max_size=8),
)
def test_a_produce_response_is_read_as_kafka_python_writes_it(
    version: int,
    topics: dict[str, dict[int, tuple[int, int, int, int, list[tuple[int, str | None]], str | None]]],
    throttle_time_ms: int,
    before: bytes,
) -> None:
    topic_kind = ProduceResponse.TopicProduceResponse
    kind = topic_kind.PartitionProduceResponse
    written = ProduceResponse(
        responses=[
            topic_kind(
                name=name,
                partition_responses=[
                    kind(
                        index=number,
                        error_code=error,
                        base_offset=base_offset,
                        log_append_time_ms=appended_at,
                        log_start_offset=log_start,
                        **(
                            {
                                "record_errors": [
                                    kind.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                                    for index, text in errors
                                ],
                                "error_message": message,
                            }
                            if version >= 8
                            else {}
                        ),
                    )
                    for number, (error, base_offset, appended_at, log_start, errors, message) in parts.items()
                ],
            )
            for name, parts in topics.items()
        ],
        throttle_time_ms=throttle_time_ms,
        version=version,
    ).encode(version=version)
    asked = RawProduce({})
    asked.negotiate_version({0: (3, version)})
    answer = asked.read(memoryview(before + written), len(before))
    assert answer.throttle_time_ms == throttle_time_ms
    assert answer.partitions == {
        # What stands beside an error counts only with one.
        (name, number): (
            error,
            base_offset,
            appended_at,
            *((message, tuple(errors)) if error and version >= 8 else (None, ())),
            not error or version >= 8,
        )
        for name, parts in topics.items()
        for number, (error, base_offset, appended_at, _, errors, message) in parts.items()
    }
