"""How many requests a cluster has answered, by the brokers' own count, and whether somebody asks without pause."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.traffic.request_counter import Sample, read_samples
from harness.wait import wait_for

DEADLINE_S = 30.0
MOST_PER_S = 50.0
LASTS_S = 2.0
LASTS_OTHER_S = 5.0
"""A test that sets up topics or waits for something asks a lot at first; what goes on for longer is a loop."""
LEAST_BYTES = 20
"""Of records for each request that is there for the sake of records; an answer with one record has more."""
_FOR_RECORDS = frozenset(
    [
        *("Produce", "FetchConsumer", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
        *("AddPartitionsToTxnVerification", "WriteTxnMarkers", "OffsetCommit", "DeleteRecords"),
    ]
)
_AMONG_BROKERS = frozenset(["FetchFollower"])
_MOST_LOOKS = 4
"""A copier looks so often at the end of a log until the marker of a transaction is there."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests by API, such as `Metadata`, and bytes of records that clients wrote and read."""

    requests: Counter[str]
    data: int


def requests(cluster: KafkaCluster) -> Counter[str]:
    """The requests of `traffic`."""
    return traffic(cluster).requests


def traffic(cluster: KafkaCluster) -> Traffic:
    """The traffic of all nodes since they were started; the cluster must count it.

    Waits for the next count of each running node, half a second. Raises HarnessError.
    """
    counted: Counter[str] = Counter()
    data = 0
    now = time.time()
    for broker in cluster.brokers.values():
        if broker.counts is None:
            raise HarnessError(f"cluster {cluster.name} was made without counted=True.")
        found = _whole(broker.counts)
        if broker.process.alive:
            file = broker.counts
            wait_for(lambda file=file: _last(file) > now, DEADLINE_S, f"{broker.process.name} counts")  # type: ignore[misc]
            found = _whole(broker.counts)
        for sample in found:
            counted.update(sample.requests)
            data += sample.data
    return Traffic(counted, data)


def _whole(file: Path) -> list[Sample]:
    if not file.is_file():
        return []
    with file.open(encoding="ascii") as lines:
        return list(read_samples(lines))


def _last(file: Path) -> float:
    found = _whole(file)
    return found[-1].at if found else 0.0


@dataclass(frozen=True, slots=True)
class AskingLoop:
    """Somebody asked one broker for the same without pause, and no records moved."""

    broker: str
    kind: str
    seconds: float
    requests: int

    def __str__(self) -> str:
        return (
            f"{self.broker}: {self.requests} {self.kind} requests within {self.seconds:.1f} s, "
            f"{self.requests / self.seconds:.0f} a second, and no records for them"
        )


def find_loops(broker: str, samples: Iterable[Sample]) -> list[AskingLoop]:
    """Stretches in which each sample has more than 50 requests a second of one kind.

    Two seconds of requests that carry records, or are made because of them, unless at least 20 bytes of records moved
    for each; five of all others. Brokers that copy from each other are left out, and looks at the ends of logs that get
    markers of transactions.
    """
    open_: dict[str, AskingLoop] = {}
    found: list[AskingLoop] = []
    for sample in samples:
        busy = {kind for kind in sample.requests if _in_vain(kind, sample)}
        found.extend(open_.pop(kind) for kind in set(open_) - busy)
        for kind in busy:
            so_far = open_.get(kind, AskingLoop(broker, kind, 0.0, 0))
            seconds, count = so_far.seconds + sample.seconds, so_far.requests + sample.requests[kind]
            open_[kind] = AskingLoop(broker, kind, seconds, count)
    stretches = [*found, *open_.values()]
    return [loop for loop in stretches if loop.seconds >= (LASTS_S if loop.kind in _FOR_RECORDS else LASTS_OTHER_S)]


def _in_vain(kind: str, sample: Sample) -> bool:
    count = sample.requests[kind]
    if kind in _AMONG_BROKERS or count <= MOST_PER_S * sample.seconds:
        return False
    if kind == "ListOffsets" and count <= _MOST_LOOKS * sample.requests.get("WriteTxnMarkers", 0):
        return False
    return kind not in _FOR_RECORDS or sample.data < LEAST_BYTES * count


class LoopWatch:
    """Looks at what all brokers of a directory have counted since it looked last, those that have ended included."""

    def __init__(self, counts: Path) -> None:
        self._counts = counts
        self._files: dict[Path, IO[str]] = {}

    def look(self) -> list[AskingLoop]:
        loops: list[AskingLoop] = []
        for path in sorted(self._counts.glob("*")):
            if path not in self._files:
                self._files[path] = path.open(encoding="ascii")
            loops += find_loops(path.stem, read_samples(self._files[path]))
        return loops

    def close(self) -> None:
        for file in self._files.values():
            file.close()
