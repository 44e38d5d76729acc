"""Estimates the time and the disk for the offsets that a run fills before the first records of remote topics.

A copier deletes its fillers in steps. A broker frees the disk of a step later: its next check of retention marks the
whole segments before the begin of the log (Kafka class LogManager), and removes their files after
`file.delete.delay.ms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.console.table import shown_duration
from twinlog.copier.offset_fillers import DELETED_AT_ONCE
from twinlog.model.amounts import counted, shown_bytes
from twinlog.model.topics import ConfigEntry
from twinlog.model.types import TopicName

FILLED_A_SECOND, FILLER_BYTES = 25_000_000, 0.44
"""Offsets that a copier fills in a second, on two cores, and bytes of a filler on each replica, with zstd."""

RETENTION_CHECK, CHECK_MS = "log.retention.check.interval.ms", 300_000
"""The broker's pause between two checks of retention, and Kafka's default of it."""

_SEGMENT_BYTES, _SEGMENT_OFFSETS = 1 << 30, 1 << 31
"""The default of `segment.bytes`, and the most offsets of a segment."""

_DELAY_MS = 60_000
"""The default of `file.delete.delay.ms`."""

_READ = ("segment.bytes", "file.delete.delay.ms")


@dataclass(frozen=True, slots=True)
class FilledHead:
    """The offsets that a run fills before the first records of a remote topic, and deletes again.

    On each replica `held_bytes` of disk are in segments that wait for their end or for the next step, and other fillers
    leave the disk `freed_s` seconds after their step.
    """

    topic: TopicName
    remote: TopicName
    offsets: int
    held_bytes: int
    freed_s: float

    @property
    def seconds(self) -> float:
        """The time of the filling."""
        return self.offsets / FILLED_A_SECOND

    @property
    def bytes(self) -> int:
        """The bytes that are written on each replica."""
        return round(self.offsets * FILLER_BYTES)

    @property
    def disk_bytes(self) -> int:
        """The most bytes of disk that the fillers take at a time on each replica."""
        return most_disk([self])

    def words(self) -> str:
        """The estimate for a note of a plan."""
        step = shown_bytes(round(min(self.offsets, DELETED_AT_ONCE) * FILLER_BYTES))
        return (
            f"{counted(self.offsets, 'offset')} before its first records: filled, and deleted again (about "
            f"{shown_duration(self.seconds)}, and {shown_bytes(self.bytes)} on each replica, at most "
            f"{shown_bytes(self.disk_bytes)} of its disk at a time: a broker frees whole segments, up to "
            f"{shown_duration(self.freed_s)} after each step of {step})"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "remote": self.remote,
            "offsets": self.offsets,
            "seconds": self.seconds,
            "bytes_per_replica": self.bytes,
            "disk_bytes_per_replica": self.disk_bytes,
            "freed_after_seconds": self.freed_s,
        }


def filled_head(
    topic: TopicName, remote: TopicName, fills: Collection[int], settings: Iterable[ConfigEntry], check_ms: int
) -> FilledHead:
    """The estimate for the partitions of a topic, each with so many offsets to fill.

    `settings` are the settings that the remote topic has or gets: a missing setting counts as Kafka's default.
    `check_ms` is the pause between the broker's checks of retention.
    """
    known = {entry.name: int(entry.value) for entry in settings if entry.name in _READ and entry.value is not None}
    segment = min(known.get("segment.bytes", _SEGMENT_BYTES), round(_SEGMENT_OFFSETS * FILLER_BYTES))
    # The first segment that a step reaches only in part stays, and the next step begins after it.
    most = segment + round(DELETED_AT_ONCE * FILLER_BYTES)
    held = sum(min(round(offsets * FILLER_BYTES), most) for offsets in fills)
    freed_s = (check_ms + known.get("file.delete.delay.ms", _DELAY_MS)) / 1000
    return FilledHead(topic, remote, sum(fills), held, freed_s)


def most_disk(heads: Sequence[FilledHead]) -> int:
    """The most bytes of disk on each replica that fillers take at a time, if a copier fills all of the `heads`."""
    freed_s = max((head.freed_s for head in heads), default=0.0)
    waiting = round(freed_s * FILLED_A_SECOND * FILLER_BYTES)
    return min(sum(head.bytes for head in heads), waiting + sum(head.held_bytes for head in heads))
