"""What a soak leaves on the brokers: requests while idle, and how internal topics grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from faults.scene import Scene
from harness.checks.requests import find_loops
from harness.cluster import KafkaCluster
from harness.consume import ends
from harness.topics import topics
from harness.traffic.request_counter import read_samples


@dataclass(frozen=True, slots=True)
class TopicSize:
    """`records` ever appended to all partitions, `disk` bytes of one replica of each, on whichever broker has it."""

    records: int
    disk: int


def internal_topics(scene: Scene) -> dict[str, TopicSize]:
    """Every topic that is twinlog's own, on either cluster, as `cluster/topic`."""
    found = {}
    for cluster in (scene.source, scene.target):
        names = [name for name in topics(cluster) if _internal(name)]
        for name, reached in ends(cluster, names).items():
            found[f"{cluster.name}/{name}"] = TopicSize(reached, _disk(cluster, name))
    return found


def _internal(topic: str) -> bool:
    return topic.startswith("mm2-") or topic.endswith((".internal", "heartbeats"))


def _disk(cluster: KafkaCluster, topic: str) -> int:
    sizes: dict[str, int] = {}
    for broker in cluster.brokers.values():
        for place in broker.data.glob(f"{topic}-*"):
            if place.name.removeprefix(f"{topic}-").isdecimal():
                # Index files are reserved in full for the active segment: what counts are the records.
                size = sum(file.stat().st_size for file in place.glob("*.log"))
                sizes[place.name] = max(size, sizes.get(place.name, 0))
    return sum(sizes.values())


def requests_between(scene: Scene, began: float, ended: float) -> Iterator[tuple[str, dict[str, float], list[str]]]:
    """For each broker its requests per second by kind between two moments (s since 1970), and loops among them."""
    for cluster in (scene.source, scene.target):
        for broker in cluster.brokers.values():
            if broker.counts is None or not broker.counts.is_file():
                continue
            with broker.counts.open(encoding="ascii") as lines:
                samples = [one for one in read_samples(lines) if began <= one.at - one.seconds and one.at <= ended]
            lasted = sum(one.seconds for one in samples)
            counted: Counter[str] = Counter()
            for one in samples:
                counted.update(one.requests)
            rates = {kind: round(count / lasted, 2) for kind, count in counted.items()}
            yield broker.process.name, rates, list(map(str, find_loops(broker.process.name, samples)))
