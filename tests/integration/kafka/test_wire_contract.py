"""What `kafka.net.frames` takes from the inner layers of kafka-python: fails when an upgrade of it changes them."""

from __future__ import annotations

import inspect
import socket
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.parser import KafkaProtocol

from harness.cluster import KafkaCluster
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from tests.connected_admins import plain_login
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net import frames
from twinlog.kafka.net.connections import Connections
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.selector import LeanSelector
from twinlog.kafka.net.transport import PlainTransport, TlsTransport
from twinlog.kafka.protocol.fetch import read_fetch_response
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.model.types import TopicName
from twinlog.settings.client import ClientSettings

Call = Callable[..., Any]


@pytest.fixture
def loop(turning_loop: Loop) -> Loop:
    return turning_loop


@pytest.fixture
def client(loop: Loop, source_cluster: KafkaCluster) -> Iterator[ClusterClient]:
    """A client of the source, over SASL, that has connected."""
    server = plain_login(source_cluster, "mirrormaker")
    client = ClusterClient(loop, "north", server)
    loop.run(client.connect)
    yield client
    client.close()


# -- classes that are extended


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [
        (frames.FrameManager, KafkaConnectionManager, "_connect"),
        (frames.FrameManager, KafkaConnectionManager, "_build_transport"),
        (Connections, KafkaConnectionManager, "get_connection"),
        (Connections, KafkaConnectionManager, "_do_bootstrap"),
        (Connections, KafkaConnectionManager, "least_loaded_node"),
        (Connections, KafkaConnectionManager, "close_idle_connections"),
        (Connections, KafkaConnectionManager, "_connect"),
        (frames.FrameConnection, KafkaConnection, "connection_made"),
        (frames.FrameConnection, KafkaConnection, "_sasl_authenticate"),
        (frames.FrameParser, KafkaProtocol, "send_request"),
        (frames.FrameParser, KafkaProtocol, "receive_bytes"),
        (PlainTransport, KafkaTCPTransport, "resume_reading"),
        (PlainTransport, KafkaTCPTransport, "pause_reading"),
        (PlainTransport, KafkaTCPTransport, "write"),
        (TlsTransport, KafkaSSLTransport, "resume_reading"),
        (TlsTransport, KafkaSSLTransport, "handshake"),
        (TlsTransport, KafkaSSLTransport, "write"),
        (LeanSelector, NetworkSelector, "register_event"),
        (LeanSelector, NetworkSelector, "unregister_event"),
        (LeanSelector, NetworkSelector, "_poll_once"),
    ],
)
def test_what_is_overridden_is_there(ours: type, theirs: type, name: str) -> None:
    there, here = getattr(theirs, name), getattr(ours, name)
    assert here is not there
    assert inspect.iscoroutinefunction(here) == inspect.iscoroutinefunction(there)
    # Whatever the library passes must be taken.
    signature = inspect.signature(here)
    given = inspect.signature(there).parameters.values()
    positional = [one for one in given if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty]
    named = {one.name: None for one in given if one.default is not one.empty}
    signature.bind(*positional, **named)


def test_a_manager_knows_every_setting_that_it_is_given() -> None:
    given = {"bootstrap_servers", "client_id", "request_timeout_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms"}
    given |= {"metadata_max_age_ms", "security_protocol", "socket_options", "receive_message_max_bytes", "proxy_url"}
    given |= {"max_in_flight_requests_per_connection", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"}
    given |= {"connections_max_idle_ms", "socket_connection_setup_timeout_ms"}
    given |= {"socket_connection_setup_timeout_max_ms"}
    assert given <= KafkaConnectionManager.DEFAULT_CONFIG.keys()
    assert {
        "bootstrap_servers",
        "retry_backoff_ms",
        "allow_auto_create_topics",
    } <= ClusterMetadata.DEFAULT_CONFIG.keys()


def test_metadata_is_kept_in_one_place(client: ClusterClient, loop: Loop) -> None:
    control, data = client._control, client._data
    assert data.cluster is control.cluster
    heard: list[object] = []
    control.cluster.add_listener(heard.append)
    # What the library does by itself, when a connection is lost or metadata is old.
    loop.run(control.cluster.refresh_metadata)
    assert heard
    assert control._asked_since is None
    assert {server.node_id for server in control.cluster.bootstrap_brokers()} == {"bootstrap-0"}
    assert control.cluster._generate_bootstrap_brokers().keys() == control.cluster._bootstrap_brokers.keys()
    control.update_backoff(1)
    failures, _, _ = control._backoff[1]
    assert (failures, control.cut_off) == (1, True)
    control.reset_backoff(1)
    assert not control.cut_off


def test_every_connection_reads_whole_frames(client: ClusterClient, loop: Loop) -> None:
    loop.run(client.refresh, [TopicName("any")])
    loop.run(client.send_request, MetadataRequest(topics=[], allow_auto_topic_creation=False), 1)
    loop.run(client.send, MetadataRequest(topics=[], allow_auto_topic_creation=False), 1)
    connections = [conn for manager in (client._control, client._data) for conn in manager._conns.values()]
    assert len(connections) >= 2
    for connection in connections:
        assert type(connection) is frames.FrameConnection
        assert type(connection.parser) is frames.FrameParser
        assert type(connection.transport) is PlainTransport
        assert connection.transport._frame is None
        assert connection.transport._limit == 256 << 20


def test_a_manager_negotiates_versions_and_keeps_metadata(client: ClusterClient, loop: Loop) -> None:
    versions = client._control.broker_version_data.api_versions
    assert versions[0][1] >= RawProduce.API_VERSION
    assert versions[1][1] >= 13
    assert client.connected
    assert [broker.node_id for broker in client._control.cluster.brokers()] == [1]
    loop.run(client.refresh, [TopicName("any")])
    assert [broker.node_id for broker in client._data.cluster.brokers()] == [1]


def test_asking_creates_no_topic(
    client: ClusterClient, loop: Loop, source_cluster: KafkaCluster, topic_name: str
) -> None:
    for manager in (client._control, client._data):
        assert manager.cluster.config["allow_auto_create_topics"] is False
    found = loop.run(client.refresh, [TopicName(topic_name)])
    assert found[TopicName(topic_name)].error == 3
    assert topic_name not in topics(source_cluster)


def test_a_refused_login_ends_the_attempt(loop: Loop, source_cluster: KafkaCluster) -> None:
    settings = plain_login(source_cluster, "mirrormaker", password="wrong")
    client = ClusterClient(loop, "north", settings)
    with pytest.raises(RefusedError, match=r"cluster north: the login was refused .*check sasl\.jaas\.config"):
        loop.run(client.connect)
    client.close()


def test_a_server_that_does_not_answer_is_worth_another_try(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = ClusterClient(loop, "north", ClientSettings((address,)))
        with pytest.raises(ClusterError, match="cluster north") as raised:
            loop.run(client.connect, 0.5)
        assert raised.value.retriable
        client.close()


# -- a broker's own bytes


class Wire:
    """A bare socket to a broker; requests are encoded by kafka-python, frames come as the broker sent them."""

    def __init__(self, cluster: KafkaCluster) -> None:
        host, port = cluster.bootstrap.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._correlation = 0

    def ask(self, request: Any, version: int) -> bytes:
        """The answer's frame without its length."""
        self._correlation += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._correlation, client_id="contract")
        self._socket.sendall(request.encode(framed=True, header=True))
        frame = self._receive(struct.unpack(">i", self._receive(4))[0])
        assert struct.unpack_from(">i", frame)[0] == self._correlation
        return frame

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece
            data += piece
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def bare(source_cluster: KafkaCluster) -> Iterator[Wire]:
    wire = Wire(source_cluster)
    yield wire
    wire.close()


@pytest.fixture
def logs(
    source_cluster: KafkaCluster, client: ClusterClient, loop: Loop, new_name: Callable[[str], str]
) -> dict[TopicName, uuid.UUID]:
    """Topic ids of a topic with two full partitions and an empty one, and of one with aborted transactions."""
    full, aborted = TopicName(new_name("full")), TopicName(new_name("aborted"))
    create_topic(source_cluster, full, 3)
    create_topic(source_cluster, aborted)
    produce(source_cluster, full, numbered(30, size=500, headers=True), per_batch=10, codec="lz4")
    produce(source_cluster, full, numbered(2), partition=1)
    for _ in range(2):
        produce(source_cluster, aborted, numbered(5), transactional_id=new_name("tx"), abort=True)
        produce(source_cluster, aborted, numbered(5), transactional_id=new_name("tx"))
    found = loop.run(client.refresh, [full, aborted])
    ids = {}
    for name in (full, aborted):
        topic_id = found[name].topic_id
        assert topic_id is not None
        ids[name] = topic_id
    return ids


def fetch(wants: dict[tuple[TopicName, int], tuple[int, int]], ids: dict[TopicName, uuid.UUID]) -> FetchRequest:
    """A request for {(topic, partition): (offset, last fetched epoch)}."""
    kind = FetchRequest.FetchTopic
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=10_000_000,
        isolation_level=1,
        session_id=0,
        session_epoch=0,
        forgotten_topics_data=[],
        rack_id="",
        topics=[
            kind(
                topic=name,
                topic_id=ids[name],
                partitions=[
                    kind.FetchPartition(
                        partition=number,
                        current_leader_epoch=-1,
                        fetch_offset=offset,
                        last_fetched_epoch=epoch,
                        log_start_offset=-1,
                        partition_max_bytes=1_000_000,
                    )
                    for (topic, number), (offset, epoch) in wants.items()
                    if topic == name
                ],
            )
            for name in dict.fromkeys(topic for topic, _ in wants)
        ],
    )


def body_of(frame: bytes, version: int) -> int:
    """Where the body begins: after the correlation id, and in flexible versions an empty list of tags."""
    if version < 12:
        return 4
    assert frame[4] == 0
    return 5


def assert_same(frame: bytes, version: int) -> Any:
    """Our reading of a frame is kafka-python's; returns the latter."""
    body = body_of(frame, version)
    theirs = FetchResponse.decode(memoryview(frame)[body:], version=version)
    buffer = bytearray(frame)
    ours = read_fetch_response(memoryview(buffer), body, version)
    assert (ours.throttle_time_ms, ours.error_code, ours.session_id) == (
        theirs.throttle_time_ms,
        theirs.error_code,
        theirs.session_id,
    )
    keys = [topic.topic_id if version >= 13 else topic.topic for topic in theirs.responses]
    assert [key for key, _ in ours.topics] == keys
    for (_, parts), topic in zip(ours.topics, theirs.responses, strict=True):
        for part, other in zip(parts, topic.partitions, strict=True):
            assert (part.partition, part.error) == (other.partition_index, other.error_code)
            assert part.high_watermark == other.high_watermark
            assert part.last_stable_offset == other.last_stable_offset
            assert part.log_start == other.log_start_offset
            assert [tuple(one) for one in part.aborted] == [
                (one.producer_id, one.first_offset) for one in other.aborted_transactions or ()
            ]
            assert bytes(part.records) == bytes(other.records or b"")
            assert not part.records.readonly
            diverging = other.diverging_epoch if version >= 12 else None
            assert (part.diverging_epoch, part.diverging_end) == (
                (-1, -1) if diverging is None else (diverging.epoch, diverging.end_offset)
            )
    return theirs


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_a_fetch_response_is_read_as_kafka_python_reads_it(
    bare: Wire, logs: dict[TopicName, uuid.UUID], version: int
) -> None:
    full, aborted = logs
    wants = {(full, 0): (0, -1), (full, 1): (1, -1), (full, 2): (0, -1), (aborted, 0): (0, -1)}
    theirs = assert_same(bare.ask(fetch(wants, logs), version), version)
    assert theirs.session_id != 0
    parts = {
        (topic.topic if version < 13 else topic.topic_id, part.partition_index): part
        for topic in theirs.responses
        for part in topic.partitions
    }
    keys = (full, aborted) if version < 13 else (logs[full], logs[aborted])
    assert len(parts[keys[0], 0].records) > 500
    assert not parts[keys[0], 2].records
    assert len(parts[keys[1], 0].aborted_transactions) == 2


@pytest.mark.parametrize("version", [12, 13])
def test_errors_and_diverging_logs_are_read_as_kafka_python_reads_them(
    bare: Wire, logs: dict[TopicName, uuid.UUID], version: int
) -> None:
    full, _ = logs
    # Beyond the end without an epoch: out of range. With one: where the log of that epoch ends.
    wants = {(full, 0): (40, -1), (full, 1): (40, 0), (full, 2): (0, -1)}
    theirs = assert_same(bare.ask(fetch(wants, logs), version), version)
    (topic,) = theirs.responses
    parts = {part.partition_index: part for part in topic.partitions}
    assert parts[0].error_code == 1
    assert (parts[1].diverging_epoch.epoch, parts[1].diverging_epoch.end_offset) == (0, 2)


def test_an_unknown_topic_id_is_read_as_kafka_python_reads_it(bare: Wire, logs: dict[TopicName, uuid.UUID]) -> None:
    full, _ = logs
    theirs = assert_same(bare.ask(fetch({(full, 0): (0, -1)}, {full: uuid.UUID(int=77)}), 13), 13)
    assert theirs.responses[0].partitions[0].error_code == 100
