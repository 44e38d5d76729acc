"""Judges a copy window by window: what the source got since the last look, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from harness.checks.checker import Identity, Verdict, check_partition, identify
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.wait import wait_for

Place = tuple[str, int]
"""Source topic and partition."""


@dataclass(frozen=True, slots=True)
class Window:
    """One partition's part: records of the source, those rolled back, and what the target shows."""

    source: list[Record]
    aborted: frozenset[Identity]
    target: list[Record]
    verdict: Verdict


class Windows:
    """Remembers how far source and target have been looked at; `remotes` names the remote topic of each topic.

    The remote topics of those `restamped` stamp records themselves, so that their times are not compared.
    """

    def __init__(
        self,
        source: KafkaCluster,
        target: KafkaCluster,
        remotes: Mapping[str, str],
        partitions: int,
        *,
        restamped: Container[str] = (),
    ) -> None:
        self._source = source
        self._target = target
        self._remotes = dict(remotes)
        self._restamped = restamped
        self._partitions = range(partitions)
        self._read: dict[str, dict[int, int]] = {topic: dict.fromkeys(self._partitions, 0) for topic in remotes}
        self._copied: dict[str, dict[int, int]] = {topic: dict.fromkeys(self._partitions, 0) for topic in remotes}
        self._kept: dict[str, list[Record]] = {topic: [] for topic in remotes}
        self._earlier: defaultdict[Place, set[Identity]] = defaultdict(set)

    def keep(self) -> dict[Place, int]:
        """Read what has arrived since the last judgement, so that it may be deleted.

        Returns the offset after it, by remote topic and partition.
        """
        for topic, remote in self._remotes.items():
            arrived = consume(self._target, remote, start=self._copied[topic], partitions=self._partitions)
            self._kept[topic] += arrived
            for record in arrived:
                self._copied[topic][record.partition] = record.offset + 1
        return self.copied

    @property
    def read(self) -> dict[Place, int]:
        """The source offset up to which everything was judged, by topic and partition."""
        return {(topic, part): offset for topic, ends in self._read.items() for part, offset in ends.items()}

    @property
    def copied(self) -> dict[Place, int]:
        """The target offset up to which everything was read, by remote topic and partition."""
        return {
            (self._remotes[topic], part): offset
            for topic, ends in self._copied.items()
            for part, offset in ends.items()
        }

    def judge(self, deadline_s: float, watch: Callable[[], None]) -> tuple[dict[Place, Window], bool]:
        """Wait until the last record of each partition is copied, then judge; False when that did not happen.

        The source must be at rest. `watch` is called again and again meanwhile.
        """
        found: dict[Place, Window] = {}
        complete = True
        for topic, remote in self._remotes.items():
            everything = consume(self._source, topic, start=self._read[topic], isolation="read_uncommitted")
            visible = consume(self._source, topic, start=self._read[topic])
            copied: list[Record] = []

            def caught_up(
                topic: str = topic, remote: str = remote, visible: list[Record] = visible, copied: list[Record] = copied
            ) -> bool:
                watch()
                arrived = consume(self._target, remote, start=self._copied[topic], partitions=self._partitions)
                copied[:] = self._kept[topic] + arrived
                there = {(record.partition, identify(record)) for record in copied}
                return {(record.partition, identify(record)) for record in _last(visible)} <= there

            try:
                wait_for(caught_up, deadline_s, f"{remote} has what {topic} has")
            except TimeoutError:
                complete = False
            self._kept[topic] = []
            for partition in self._partitions:
                place = (topic, partition)
                found[place] = self._judge(place, _of(everything, partition), _of(visible, partition), copied)
        return found, complete

    def _judge(self, place: Place, everything: list[Record], visible: list[Record], copied: list[Record]) -> Window:
        topic, partition = place
        target = _of(copied, partition)
        shown = {identify(record) for record in visible}
        aborted = {identity for record in everything if (identity := identify(record)) and identity not in shown}
        if topic in self._restamped:
            visible, target = _without_times(visible), _without_times(target)
        verdict = check_partition(visible, target, aborted=aborted, earlier=self._earlier[place])
        self._earlier[place] |= {identity for record in visible if (identity := identify(record))}
        if everything:
            self._read[topic][partition] = everything[-1].offset + 1
        if target:
            self._copied[topic][partition] = target[-1].offset + 1
        return Window(visible, frozenset(aborted), target, verdict)


def _of(records: Iterable[Record], partition: int) -> list[Record]:
    return [record for record in records if record.partition == partition]


def _without_times(records: Iterable[Record]) -> list[Record]:
    return [replace(record, timestamp=0, timestamp_type="none") for record in records]


def _last(records: Iterable[Record]) -> Iterable[Record]:
    """The last one of each partition."""
    return {record.partition: record for record in records}.values()
