"""The harness on itself: what other tests take for granted about their brokers is true."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.acls import Acl, acls, create_acls
from harness.checks.requests import AskingLoop, LoopWatch, requests
from harness.child import runs
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.errors import HarnessError
from harness.groups import commit_offsets, group_offsets, groups
from harness.jvm.tools import dump_log
from harness.produce import NewRecord, numbered, produce
from harness.topics import (
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
    offsets,
    set_topic_config,
    topic_config,
    topics,
)
from harness.wait import wait_for


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[KafkaCluster]:
    """One that may be broken; every test leaves it running."""
    with KafkaCluster("fragile", heap="256m", counted=True) as cluster:
        yield cluster


def test_records_come_back_as_they_were_written(source_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(source_cluster, topic_name, 2)
    written = [
        NewRecord(b"v", b"k", (("a", b"1"), ("a", b"2"), ("none", None)), timestamp=1_600_000_000_000),
        NewRecord(None, b"tombstone", timestamp=1_500_000_000_000),
        NewRecord(b"", None, timestamp=1_700_000_000_000),
    ]
    assert produce(source_cluster, topic_name, written, partition=1, codec="zstd") == [0, 1, 2]

    found = consume(source_cluster, topic_name)

    assert [(one.partition, one.offset) for one in found] == [(1, 0), (1, 1), (1, 2)]
    assert (
        [one.content for one in found]
        == [(one.key, one.value, one.headers, one.timestamp, "create") for one in written]
        == [(one.key, one.value, one.headers, one.timestamp, "create") for one in written]
    )


def test_batches_have_the_size_asked_for(source_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(source_cluster, topic_name)
    produce(source_cluster, topic_name, numbered(25, size=200), per_batch=10, codec="lz4")

    dump = dump_log(source_cluster.brokers[1].data, topic_name)

    batches = [line for line in dump.splitlines() if line.startswith("baseOffset:")]
    assert [int(line.split(" count: ")[1].split()[0]) for line in batches] == [10, 10, 5]
    assert all("compresscodec: lz4" in line for line in batches)


def test_an_aborted_transaction_is_there_only_for_uncommitted_readers(
    source_cluster: KafkaCluster, topic_name: str, new_name: Callable[[str], str]
) -> None:
    create_topic(source_cluster, topic_name)
    produce(source_cluster, topic_name, numbered(3), transactional_id=new_name("tx"), abort=True)
    # The marker may come a moment after the producer was answered.
    wait_for(lambda: offsets(source_cluster, topic_name)[1] == 4, 60, "the transaction's marker is there")
    produce(source_cluster, topic_name, numbered(2, start=3), transactional_id=new_name("tx"))

    committed = consume(source_cluster, topic_name)
    everything = consume(source_cluster, topic_name, isolation="read_uncommitted")

    assert [one.value for one in committed] == [b"3", b"4"]
    assert [one.offset for one in everything] == [0, 1, 2, 4, 5]


def test_topics_can_be_changed_and_read_back(source_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(source_cluster, topic_name, 3, config={"retention.ms": "1000000"})
    set_topic_config(source_cluster, topic_name, {"max.message.bytes": "2000000"})
    produce(source_cluster, topic_name, numbered(10))
    delete_records(source_cluster, topic_name, 4)

    assert topics(source_cluster)[topic_name] == 3
    assert topic_config(source_cluster, topic_name) == {"retention.ms": "1000000", "max.message.bytes": "2000000"}
    assert offsets(source_cluster, topic_name) == (4, 10)
    assert [one.offset for one in consume(source_cluster, topic_name)] == [4, 5, 6, 7, 8, 9]
    delete_topic(source_cluster, topic_name)
    assert topic_name not in topics(source_cluster)


def test_what_came_after_a_client_was_made_is_seen(source_cluster: KafkaCluster, topic_name: str) -> None:
    with pytest.raises(KafkaException):
        offsets(source_cluster, topic_name)
    create_topic(source_cluster, topic_name)
    produce(source_cluster, topic_name, numbered(3))
    assert offsets(source_cluster, topic_name) == (0, 3)
    with pytest.raises(KafkaException):
        offsets(source_cluster, topic_name, 1)
    add_partitions(source_cluster, topic_name, 2)
    assert offsets(source_cluster, topic_name, 1) == (0, 0)
    delete_topic(source_cluster, topic_name)
    create_topic(source_cluster, topic_name)
    assert offsets(source_cluster, topic_name) == (0, 0)


def test_compaction_happens_within_a_test(source_cluster: KafkaCluster, topic_name: str) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "1048576"}
    create_topic(source_cluster, topic_name, config=config)
    produce(source_cluster, topic_name, numbered(1000, size=2000, keys=3))

    wait_for(lambda: len(consume(source_cluster, topic_name)) < 600, 60, "old values of three keys are cleaned away")


def test_a_user_needs_the_right_password(source_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(source_cluster, topic_name)
    produce(source_cluster, topic_name, numbered(1), user="mirrormaker")
    assert len(consume(source_cluster, topic_name, user="kafkaui")) == 1

    wrong = AdminClient({**source_cluster.client_config("admin"), "sasl.password": "wrong"})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=2)


def test_acknowledged_records_survive_a_killed_broker(own_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(own_cluster, topic_name)
    produce(own_cluster, topic_name, numbered(100))
    before, port = own_cluster.pids, own_cluster.bootstrap

    own_cluster.kill()
    assert own_cluster.pids == []
    own_cluster.restart()

    assert own_cluster.bootstrap == port
    assert own_cluster.pids != before
    assert [one.value for one in consume(own_cluster, topic_name)] == [b"%d" % n for n in range(100)]


def test_a_suspended_broker_answers_nothing_until_it_is_resumed(own_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(own_cluster, topic_name)
    admin = AdminClient(own_cluster.client_config())
    admin.list_topics(timeout=60)

    own_cluster.suspend()
    try:
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=1)
    finally:
        own_cluster.resume()

    produce(own_cluster, topic_name, numbered(5))
    assert len(consume(own_cluster, topic_name)) == 5


def test_requests_are_counted_by_the_broker(own_cluster: KafkaCluster, topic_name: str) -> None:
    before = requests(own_cluster)
    create_topic(own_cluster, topic_name)
    produce(own_cluster, topic_name, numbered(5), per_batch=1)

    made = requests(own_cluster) - before

    # The broker passes it on to the controller, which counts it as well.
    assert made["CreateTopics"] == 2
    assert 1 <= made["Produce"] <= 5
    assert made["DeleteTopics"] == 0


def test_asking_without_pause_is_found(own_cluster: KafkaCluster, loop_watch: LoopWatch) -> None:
    # Fetch 4 without a client id, of no partition and without patience; the answer begins with its length.
    question = struct.pack(">ihhihiiiibi", 31, 1, 4, 1, -1, -1, 0, 0, 1, 0, 0)
    requests(own_cluster)
    assert loop_watch.look() == []

    with socket.create_connection(("127.0.0.1", own_cluster.brokers[1].ports.plaintext)) as line:
        answers = line.makefile("rb")

        def asked() -> list[AskingLoop]:
            """A busy machine answers fewer than that a second now and then."""
            until = time.monotonic() + 3
            while time.monotonic() < until:
                line.sendall(question)
                answers.read(*struct.unpack(">i", answers.read(4)))
            requests(own_cluster)
            return loop_watch.look()

        (loop,) = wait_for(asked, 60, "it is found")
    assert (loop.broker, loop.kind) == ("fragile-1", "FetchConsumer")
    assert loop.seconds >= 2
    assert loop.requests > 100


def test_groups_and_acls_come_back_as_they_were_written(own_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(own_cluster, topic_name, 2)
    wanted = {f"{topic_name}-{number}": {(topic_name, 1): number} for number in range(150)}

    commit_offsets(own_cluster, wanted)

    found = group_offsets(own_cluster, wanted)
    assert {name: {place: one.offset for place, one in places.items()} for name, places in found.items()} == wanted
    assert set(wanted) <= set(groups(own_cluster))
    assert acls(own_cluster) == set()


@pytest.mark.scenario
def test_stopped_brokers_go_on_with_their_data(own_cluster: KafkaCluster, topic_name: str) -> None:
    create_topic(own_cluster, topic_name)
    produce(own_cluster, topic_name, numbered(7))
    own_cluster.stop()
    assert own_cluster.pids == []
    own_cluster.start()
    assert len(consume(own_cluster, topic_name)) == 7


@pytest.mark.scenario
def test_acls_bind_users_but_not_the_plaintext_listener(topic_name: str) -> None:
    with KafkaCluster("guarded", acls=True, heap="256m") as cluster:
        create_topic(cluster, topic_name)
        rights = {
            Acl(topic_name, "User:connect", "READ"),
            Acl("pre", "User:connect", "ALL", "DENY", pattern="PREFIXED"),
        }
        create_acls(cluster, rights)
        assert acls(cluster) == rights
        produce(cluster, topic_name, numbered(1), user="admin")
        with pytest.raises(HarnessError, match="TOPIC_AUTHORIZATION_FAILED"):
            produce(cluster, topic_name, numbered(1), user="mirrormaker")
        assert offsets(cluster, topic_name) == (0, 1)


@pytest.mark.scenario
def test_three_nodes_live_through_the_loss_of_one(topic_name: str) -> None:
    with KafkaCluster("three", 3, sasl=False, heap="256m") as cluster:
        create_topic(cluster, topic_name, 3, config={"min.insync.replicas": "2"})
        cluster.kill(2)
        for partition in range(3):
            produce(cluster, topic_name, numbered(4), partition=partition)
        cluster.restart(2)
        assert len(consume(cluster, topic_name)) == 12
        assert len(cluster.pids) == 3


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    with (
        pytest.raises(HarnessError, match=r"log\.retention\.bytes"),
        KafkaCluster("wrong", config={"log.retention.bytes": "many"}),
    ):
        pytest.fail("it started")


def test_brokers_die_with_the_process_that_started_them(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from harness.cluster import KafkaCluster\n"
        f"cluster = KafkaCluster('orphan', heap='256m', work_dir=Path({str(tmp_path)!r})).start()\n"
        "print(cluster.pids[0], flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        broker = psutil.Process(pid)
        assert broker.is_running()
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        wait_for(lambda: not runs(broker), 60, "the broker is gone")
