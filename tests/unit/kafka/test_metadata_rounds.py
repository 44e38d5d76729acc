"""Many partitions of topics that are gone ask for metadata; the cluster is asked once for all."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.errors import ClusterError
from twinlog.kafka.metadata import MetadataRounds, TopicMetadata
from twinlog.kafka.net.loop import Loop
from twinlog.model.types import TopicName


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
