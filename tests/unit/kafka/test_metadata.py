"""Metadata of a broker that is behind brings no old leader back, many questions become one, old brokers are seen."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from types import SimpleNamespace

import pytest
from kafka.errors import IncompatibleBrokerVersion
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from twinlog.errors import ClusterError
from twinlog.kafka.metadata import Leader, MetadataRounds, TopicMetadata, described, incompatible, newest
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.model.types import TopicName

SHOP, ANEW = uuid.UUID(int=1), uuid.UUID(int=2)


def response(*partitions: tuple[int, int], topic_id: uuid.UUID | None = SHOP, error: int = 0) -> TopicMetadata:
    """A topic whose partitions have this leader (-1 for none) and epoch."""
    parts = [
        SimpleNamespace(
            partition_index=number,
            leader_id=node,
            leader_epoch=epoch,
            error_code=5 if node < 0 else 0,
            replica_nodes=[node, 9],
            offline_replicas=[9] if epoch % 2 else [],
        )
        for number, (node, epoch) in enumerate(partitions)
    ]
    return described(SimpleNamespace(name="shop", topic_id=topic_id, partitions=parts, error_code=error))


def merged(before: TopicMetadata | None, found: TopicMetadata, now: float = 0.0) -> TopicMetadata:
    return newest(before, found, now)


def test_a_topic_is_as_the_broker_describes_it() -> None:
    topic = response((3, 7), (-1, 4))
    assert (topic.name, topic.topic_id, topic.partitions) == (TopicName("shop"), SHOP, 2)
    assert topic.leaders == {0: Leader(3, 7)}
    assert topic.epochs == {0: 7, 1: 4}
    assert topic.replicas == {0: {3}, 1: {-1, 9}}
    assert topic.errors == {1: 5}


def test_what_is_newer_counts_partition_by_partition() -> None:
    known = merged(response((1, 5), (1, 5)), response((2, 6), (3, 4)))
    assert known.leaders == {0: Leader(2, 6), 1: Leader(1, 5)}
    assert known.epochs == {0: 6, 1: 5}
    assert known.replicas == {0: {2, 9}, 1: {1}}


def test_an_older_leader_does_not_come_back_while_there_is_none() -> None:
    without = merged(response((1, 5)), response((-1, 6)))
    assert without.leaders == {}
    still = merged(without, response((1, 5)))
    assert still.leaders == {}
    assert merged(still, response((2, 7))).leaders == {0: Leader(2, 7)}


def test_the_same_epoch_may_have_other_replicas() -> None:
    known = merged(response((1, 6)), response((4, 6)))
    assert known.leaders == {0: Leader(4, 6)}


def test_a_recreated_topic_begins_with_its_own_epochs() -> None:
    assert merged(response((1, 5)), response((2, 0), topic_id=ANEW)).leaders == {0: Leader(2, 0)}


def test_a_topic_that_is_gone_has_no_leaders() -> None:
    gone = merged(response((1, 5)), response(topic_id=None, error=3))
    assert (gone.error, gone.leaders, gone.partitions) == (3, {}, 0)
    assert merged(gone, response((2, 0))).leaders == {0: Leader(2, 0)}


def test_without_an_epoch_the_last_answer_counts() -> None:
    assert merged(response((1, 5)), response((2, -1))).leaders == {0: Leader(2, -1)}


def test_of_a_topic_without_an_id_older_epochs_count_once_no_newer_one_came_for_half_a_minute() -> None:
    known, older = response((1, 5), topic_id=None), response((2, 0), topic_id=None)
    for second in (100.0, 115.0, 130.0):
        known = merged(known, older, second)
        assert known.leaders == {0: Leader(1, 5)}
    assert merged(known, older, 130.1).leaders == {0: Leader(2, 0)}


def test_a_broker_with_old_metadata_beside_others_is_never_believed() -> None:
    known, older = response((1, 5), topic_id=None), response((2, 0), topic_id=None)
    for second in range(0, 300, 20):
        known = merged(known, older, second)
        assert known.leaders == {0: Leader(1, 5)}
        known = merged(known, response((1, 5), topic_id=None), second + 10)


def test_of_a_topic_with_an_id_older_epochs_never_count() -> None:
    known = merged(response((1, 5)), response((2, 0)), 1.0)
    assert merged(known, response((2, 0)), 1000.0).leaders == {0: Leader(1, 5)}


class Cluster:
    """Notes what it is asked for; does not answer while `away`."""

    def __init__(self) -> None:
        self.asked: list[set[TopicName]] = []
        self.away = False

    async def refresh(self, topics: Iterable[TopicName]) -> dict[TopicName, TopicMetadata]:
        names = set(topics)
        self.asked.append(names)
        if self.away:
            raise ClusterError("away")
        return {name: TopicMetadata(name, None, {}, error=3) for name in names}


NAMES = [TopicName(f"topic-{number}") for number in range(3)]


def test_who_asks_meanwhile_shares_the_answer(loop: Loop) -> None:
    cluster = Cluster()
    rounds = MetadataRounds(loop, cluster.refresh)

    async def play() -> None:
        asked = [loop.spawn(rounds.request_metadata, [NAMES[number % 3]]) for number in range(1000)]
        for number, found in enumerate(await loop.gather(asked)):
            assert found[NAMES[number % 3]].error == 3
        await rounds.request_metadata(NAMES[:1])

    loop.run(play)
    assert cluster.asked == [set(NAMES), {NAMES[0]}]


def test_a_fault_reaches_everyone_and_the_next_round_asks_again(loop: Loop) -> None:
    cluster = Cluster()
    rounds = MetadataRounds(loop, cluster.refresh)
    failed: list[str] = []

    async def ask() -> None:
        try:
            await rounds.request_metadata(NAMES[:1])
        except ClusterError as error:
            failed.append(str(error))

    async def play() -> None:
        cluster.away = True
        await loop.gather([loop.spawn(ask), loop.spawn(ask)])
        cluster.away = False
        await ask()

    loop.run(play)
    assert failed == ["away", "away"]
    assert len(cluster.asked) == 2


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version < (2, 1)))
def test_too_old(version: tuple[int, ...]) -> None:
    why = incompatible(BROKER_API_VERSIONS[version])
    assert why is not None
    assert "too old" in why
    assert "Kafka has since 2.1" in why


@pytest.mark.parametrize("version", sorted(version for version in BROKER_API_VERSIONS if version >= (2, 1)))
def test_new_enough(version: tuple[int, ...]) -> None:
    assert incompatible(BROKER_API_VERSIONS[version]) is None


def test_brokers_of_another_product_with_the_lower_versions() -> None:
    assert incompatible({0: (0, 7), 1: (4, 11)}) is None


def test_what_a_later_kafka_may_drop() -> None:
    versions = {0: (10, 20), 1: (4, 18)}
    assert incompatible(versions) == ("the brokers are too new: they know Produce from version 10 on, twinlog sends 9")


def test_what_is_not_there_at_all() -> None:
    assert "Fetch up to version -1" in (incompatible({0: (0, 9)}) or "")


@pytest.mark.parametrize(("highest", "sent"), [(7, 7), (8, 8), (9, 9), (13, 9)])
def test_the_newest_version_that_both_have_is_sent(highest: int, sent: int) -> None:
    request = RawProduce({"t": [(0, b"batch")]})
    request.negotiate_version({0: (0, highest)})
    version = request.API_VERSION
    assert version == sent


@pytest.mark.parametrize("versions", [{}, {0: (0, 6)}, {0: (10, 13)}])
def test_a_request_without_a_common_version_is_not_sent(versions: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(IncompatibleBrokerVersion, match="twinlog sends versions 7 to 9 of 'Produce'"):
        RawProduce({"t": [(0, b"batch")]}).negotiate_version(versions)
