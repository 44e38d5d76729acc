"""The held partitions of a flow, with the time of the next try of each, and its paused partitions with their lags."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from twinlog.clock import LONG_AGO, SYSTEM, Clock
from twinlog.errors.message_ids import with_id
from twinlog.lease.progress import PartitionProgress, Report
from twinlog.mirror.gaps import UNKNOWN
from twinlog.model.amounts import counted
from twinlog.model.held import HeldPartition
from twinlog.model.topics import listed
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

log = logging.getLogger(__name__)

FIRST_TRY_S, MOST_S = 1.0, 60.0
"""The pause before a held partition is tried again, and the limit to which it grows, doubled each time."""

QUIET_S = 30.0
"""A partition that was tried again is released after this quiet time, even if its next record is still to come."""

ANSWER_S = 180.0
"""The wait for a sign of a partition that copiers should try again; afterwards the driver has it tried once more.

Its lease shows a lost copier sooner.
"""

END_COUNTS_S = 30.0
"""The time for which the end of the source counts that a copier reported last, until its successor asks for it."""

SUM_EVERY_S = 600.0
NAMED = 5
"""Partitions of a cause that get a log line each; a line with their number follows for the rest."""


@dataclass(slots=True)
class _Entry:
    held: HeldPartition
    tries: int = 0
    try_at: float = LONG_AGO
    begins: bool = False
    """The partition was granted again, and its copier still has to report that it copies the partition or holds it."""
    tried_at: float | None = None
    """The start of the copying on trial (monotonic seconds)."""
    end: SourceOffset = UNKNOWN
    """The end of the source at `end_at`."""
    end_at: float = LONG_AGO


class FlowHeldPartitions:
    """A flow's held partitions; `try_again(partitions)` has copiers begin with them again.

    A partition is held from the copier's message until it is copied past the offset at which it was held. This may take
    several tries in different copiers. So `since_ms` is the time of the first message.
    """

    def __init__(self, flow: str, try_again: Callable[[Set[TopicPartition]], None], clock: Clock = SYSTEM) -> None:
        self._flow = flow
        self._try_again = try_again
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[TopicPartition, _Entry] = {}
        self._news: list[HeldPartition] = []
        self._released: list[HeldPartition] = []
        self._sum_at: float | None = None

    # For the threads of leases.

    def add_held(self, held: HeldPartition) -> bool:
        """Note that a copier holds a partition now; returns whether this cause is new for the partition."""
        now = self._clock.monotonic()
        with self._lock:
            known = self._entries.get(held.source)
            new = known is None or known.held.message_id != held.message_id
            if new:
                self._news.append(held)
            if known is None:
                known = self._entries[held.source] = _Entry(held)
            known.held = replace(held, since_ms=min(known.held.since_ms, held.since_ms))
            known.tried_at, known.begins = None, False
            known.try_at = now + min(MOST_S, FIRST_TRY_S * 2**known.tries)
            known.tries = min(known.tries + 1, 30)
        return new

    def complete(self, report: Report) -> Report:
        """A copier's report, completed for held partitions.

        A copier that tries a partition again lacks the end of the source. A recreated or truncated log is copied from
        an earlier offset than that of the held partition; a copied partition keeps its own offset.
        """
        if not self._entries:
            return report
        with self._lock:
            return replace(report, partitions=tuple(map(self._completed, report.partitions)))

    def _completed(self, part: PartitionProgress) -> PartitionProgress:
        entry = self._entries.get(TopicPartition(TopicName(part.topic), part.partition))
        if entry is None:
            return part
        now = self._clock.monotonic()
        if part.end >= 0:
            entry.end, entry.end_at = part.end, now
        elif now - entry.end_at <= END_COUNTS_S:
            part = replace(part, end=entry.end)
        resume_at = entry.held.resume_at
        still_held = part.source_offset == entry.held.source_offset and not part.counters.records
        return replace(part, source_offset=resume_at) if still_held and 0 <= resume_at < part.source_offset else part

    def add_report(self, report: Report) -> None:
        """Note the held partitions that are copied again, by a copier's report."""
        if not self._entries:
            return
        now = self._clock.monotonic()
        with self._lock:
            for part in report.partitions:
                source = TopicPartition(TopicName(part.topic), part.partition)
                entry = self._entries.get(source)
                if entry is None:
                    continue
                if part.trouble is not None:
                    # A copier begins with the partition, and waits for a broker.
                    entry.try_at = now + ANSWER_S if entry.begins else entry.try_at
                    continue
                entry.begins = False
                entry.tried_at = now if entry.tried_at is None else entry.tried_at
                passed = part.source_offset > max(entry.held.source_offset, 0) or part.lag == 0
                if passed or now - entry.tried_at > QUIET_S:
                    self._released.append(entry.held)
                    del self._entries[source]

    # For the flow's thread.

    def retry_due_partitions(self) -> None:
        """Try partitions again at the end of their pauses, and log newly held and released partitions."""
        now = self._clock.monotonic()
        with self._lock:
            due = frozenset(
                source for source, entry in self._entries.items() if entry.tried_at is None and now >= entry.try_at
            )
            for source in due:
                entry = self._entries[source]
                entry.begins, entry.try_at = True, now + ANSWER_S
            news, self._news = self._news, []
            released, self._released = self._released, []
            held = [entry.held for entry in self._entries.values()]
        self._log(news, released)
        self._log_sum(held, now)
        if due:
            self._try_again(due)

    def retain_partitions(self, planned: Set[TopicPartition]) -> None:
        """Keep only these partitions, which are copied from now on."""
        with self._lock:
            self._entries = {source: entry for source, entry in self._entries.items() if source in planned}

    # For every thread.

    def all(self) -> tuple[HeldPartition, ...]:
        """Every held partition, in the order of their names."""
        with self._lock:
            return tuple(entry.held for _, entry in sorted(self._entries.items()))

    def is_held(self, source: TopicPartition) -> bool:
        """Whether a partition is held."""
        with self._lock:
            return source in self._entries

    def settled(self) -> frozenset[TopicPartition]:
        """The partitions that were tried again at least once, and are still held."""
        with self._lock:
            return frozenset(
                source for source, entry in self._entries.items() if entry.tries > 1 and entry.tried_at is None
            )

    def __len__(self) -> int:
        return len(self._entries)

    def _log(self, news: Sequence[HeldPartition], released: Sequence[HeldPartition]) -> None:
        for some in _by_cause(news).values():
            for held in some[:NAMED]:
                log.error("%s", with_id(f"{self._flow}: {describe(held)}", held.message_id))
            if len(some) > NAMED:
                more = listed(str(held.source) for held in some[NAMED:])
                count = counted(len(some) - NAMED, "more partition")
                log.error("%s: %s: %s held: %s", some[0].message_id, self._flow, count, more)
        for some in _by_cause(released).values():
            names = listed(str(held.source) for held in some)
            log.info("TW-HELD-02: %s: copied again, held no more (%s): %s", self._flow, some[0].reason, names)

    def _log_sum(self, held: Sequence[HeldPartition], now: float) -> None:
        if not held:
            self._sum_at = None
        elif self._sum_at is None:
            self._sum_at = now + SUM_EVERY_S
        elif now >= self._sum_at:
            self._sum_at = now + SUM_EVERY_S
            log.warning("TW-HELD-01: %s: %s; twinlog status names them", self._flow, summed_up(held))


def describe(held: HeldPartition) -> str:
    """A line for the log: the partition, the reason, the offset up to which it is copied, and the way out."""
    way_out = f"; {held.way_out}" if held.way_out else ""
    return f"{held.message_id}: {held.source} is held at source offset {held.source_offset}: {held.text}{way_out}"


def counts(held: Iterable[HeldPartition]) -> Mapping[str, int]:
    """The number of held partitions for each reason."""
    return Counter(one.reason for one in held)


def summed_up(held: Collection[HeldPartition]) -> str:
    """Held partitions in a few words: `3 partitions are held (2 gap, 1 missing right)`."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts(held).items()))
    return f"{counted(len(held), 'partition')} {'is' if len(held) == 1 else 'are'} held ({reasons})"


def _by_cause(held: Iterable[HeldPartition]) -> dict[str, list[HeldPartition]]:
    found: dict[str, list[HeldPartition]] = {}
    for one in held:
        found.setdefault(one.message_id, []).append(one)
    return found


@dataclass(frozen=True, slots=True)
class PausedTopic:
    """Paused partitions of a topic: their number, and their lag in source offsets, None if unknown in part."""

    topic: str
    partitions: int
    lag: int | None


class PausedPartitions:
    """The partitions that are paused now, for any thread."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        """A flow's thread sets partitions, while the thread of its commands sets lags; readers see a whole mapping."""
        self._lags: Mapping[TopicPartition, int | None] = {}

    def set_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Pause exactly these partitions from now on."""
        with self._changing:
            self._lags = {part: self._lags.get(part) for part in partitions}

    def set_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Store the lags of paused partitions; the lag of every other paused partition is unknown from now on."""
        with self._changing:
            self._lags = {part: lags.get(part) for part in self._lags}

    def __len__(self) -> int:
        return len(self._lags)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._lags

    def without(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """The unpaused partitions among these partitions."""
        lags = self._lags
        return frozenset(part for part in partitions if part not in lags)

    def are_paused(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether all of these partitions are paused."""
        lags = self._lags
        return all(part in lags for part in partitions)

    def __str__(self) -> str:
        """The paused partitions, as the end of a sentence about copied partitions; empty if all are copied."""
        lags = self._lags
        return f", without {counted(len(lags), 'paused partition')}: {listed(map(str, lags))}" if lags else ""

    @property
    def all(self) -> str | None:
        """A text for a flow whose partitions are all paused; None if every partition is copied."""
        return f"all mirrored partitions are paused ({len(self._lags):,})" if self._lags else None

    @property
    def partitions(self) -> list[TopicPartition]:
        """All paused partitions, in order."""
        return sorted(self._lags)

    def topics(self) -> list[PausedTopic]:
        """The topics that have paused partitions, in order."""
        lags: dict[str, list[int | None]] = {}
        for part, lag in self._lags.items():
            lags.setdefault(part.topic, []).append(lag)
        return [PausedTopic(topic, len(some), _sum(some)) for topic, some in sorted(lags.items())]

    @property
    def lag(self) -> int | None:
        """The lag of all paused partitions together in source offsets, None if a part of it is unknown."""
        return _sum(self._lags.values())


def _sum(lags: Iterable[int | None]) -> int | None:
    known = 0
    for lag in lags:
        if lag is None:
            return None
        known += lag
    return known
