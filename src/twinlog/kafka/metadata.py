"""The metadata of a cluster: the leaders and leader epochs of a topic, and the versions of requests.

Concurrent requests for metadata share a request.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from twinlog.kafka.net.loop import Loop
from twinlog.kafka.protocol.fetch import RawFetch
from twinlog.kafka.protocol.produce import RawProduce
from twinlog.model.types import TopicName

ROUND_S = 0.05
"""The seconds for which a round collects requests: each of a thousand partitions of a deleted topic sends a request."""

OLDER_S = 30.0
"""For so many seconds an answer with older leader epochs counts as old metadata of a broker.

After that time a topic that lacks an id counts as recreated.
"""


class MetadataRounds:
    """Calls `refresh(topics)` at most once in `ROUND_S`, with the topics of all calls meanwhile."""

    def __init__(
        self,
        loop: Loop,
        refresh: Callable[[Iterable[TopicName]], Coroutine[Any, Any, dict[TopicName, TopicMetadata]]],
    ) -> None:
        self._loop = loop
        self._refresh = refresh
        self._wanted: set[TopicName] = set()
        self._round: Any = None

    async def request_metadata(self, topics: Iterable[TopicName]) -> Mapping[TopicName, TopicMetadata]:
        """Metadata of these topics, read after this call, and of topics of other calls. Raises as `refresh` does."""
        self._wanted |= set(topics)
        if self._round is None:
            self._round = self._loop.spawn(self._ask)
        found: Mapping[TopicName, TopicMetadata] = await self._round
        return found

    async def _ask(self) -> Mapping[TopicName, TopicMetadata]:
        await self._loop.sleep(ROUND_S)
        wanted, self._wanted, self._round = self._wanted, set(), None
        return await self._refresh(wanted)


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition: broker node id and leader epoch (-1 unknown)."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as a cluster describes it; `topic_id` is None before Kafka 2.8.

    `leaders` has an entry for each of the `partitions` with a present leader. `replicas` are the online brokers that
    hold a partition. `epochs` are the epochs of the last leaders, also for a partition that lacks a leader now.
    `errors` are the codes of partitions that lack a leader. `older_since` is the monotonic second since which answers
    had older epochs; None if all epochs of the last answer were current.
    """

    name: TopicName
    topic_id: uuid.UUID | None
    leaders: Mapping[int, Leader]
    error: int = 0
    partitions: int = 0
    replicas: Mapping[int, Collection[int]] = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)
    errors: Mapping[int, int] = field(default_factory=dict)
    older_since: float | None = None


def described(topic: Any) -> TopicMetadata:
    """The metadata of a topic in a MetadataResponse."""
    return TopicMetadata(
        name=TopicName(topic.name),
        topic_id=topic.topic_id or None,
        leaders={
            part.partition_index: Leader(part.leader_id, part.leader_epoch)
            for part in topic.partitions
            if part.leader_id >= 0
        },
        error=topic.error_code,
        partitions=len(topic.partitions),
        replicas={
            part.partition_index: set(part.replica_nodes) - set(part.offline_replicas or ())
            for part in topic.partitions
        },
        epochs={part.partition_index: part.leader_epoch for part in topic.partitions},
        errors={part.partition_index: part.error_code for part in topic.partitions if part.leader_id < 0},
    )


def newest(before: TopicMetadata | None, found: TopicMetadata, now: float) -> TopicMetadata:
    """Merge the answer `found`, of the monotonic second `now`, into the metadata of a topic.

    For each partition the newer leader epoch counts. Any broker answers a metadata request, also a broker that is
    unaware of a new leader (KIP-320, Kafka class Metadata). A topic with another id is another topic, whose epochs
    begin again.
    """
    if before is None or before.topic_id != found.topic_id:
        return found
    older = [part for part, epoch in found.epochs.items() if 0 <= epoch < before.epochs.get(part, -1)]
    if not older:
        return found
    older_since = now if before.older_since is None else before.older_since
    if found.topic_id is None and now - older_since > OLDER_S:
        return found
    leaders, replicas, epochs = dict(found.leaders), dict(found.replicas), dict(found.epochs)
    for part in older:
        epochs[part] = before.epochs[part]
        replicas[part] = before.replicas.get(part, ())
        leaders.pop(part, None)
        if part in before.leaders:
            leaders[part] = before.leaders[part]
    return replace(found, leaders=leaders, replicas=replicas, epochs=epochs, older_since=older_since)


@dataclass(frozen=True, slots=True)
class RequestVersions:
    """A request, the versions of it that twinlog sends, and the release of Kafka that has the oldest version."""

    api_key: int
    name: str
    oldest: int
    newest: int
    since: str


NEEDED = (
    RequestVersions(RawProduce.API_KEY, "Produce", RawProduce.OLDEST, RawProduce.API_VERSION, "2.1"),
    RequestVersions(RawFetch.API_KEY, "Fetch", RawFetch.OLDEST, RawFetch.NEWEST, "2.1"),
)


def incompatible(api_versions: Mapping[int, tuple[int, int]]) -> str | None:
    """The reason why a broker is unfit, by its (lowest, highest) version of each request; None if the broker is fit.

    >>> incompatible({0: (0, 6), 1: (0, 12)})  # doctest: +ELLIPSIS
    'the brokers are too old: they know Produce up to version 6, twinlog needs 7, which Kafka has since 2.1...'
    """
    for need in NEEDED:
        lowest, highest = api_versions.get(need.api_key, (0, -1))
        if highest < need.oldest:
            return (
                f"the brokers are too old: they know {need.name} up to version {highest}, twinlog needs "
                f"{need.oldest}, which Kafka has since {need.since}, and brokers that are not Apache Kafka only in "
                "some releases"
            )
        if lowest > need.newest:
            return (
                f"the brokers are too new: they know {need.name} from version {lowest} on, twinlog sends {need.newest}"
            )
    return None
