"""What a copier did since its last report beside copying partitions: figures of the copier as a whole, for metrics."""

from __future__ import annotations

from dataclasses import dataclass

AGE_BOUNDS_MS = (
    *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000),
    *(30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Upper bounds of the buckets that records are counted in by their age, in milliseconds; one more has the rest."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts since the last report, and how much waits now.

    `ages` counts records by their age when the target acknowledged them, one count for each of `AGE_BOUNDS_MS` and one
    for the rest; `age_sum_ms` is the sum of these ages. `roads` are the batches made, by how (`write.appends.Road`).
    `read_bytes` and `written_bytes` went over the network, `polls` counts answers of the source that had records, of
    `read_records` in all and `most_read` at most. Positions were stored `commits` times, in `commit_ms` all in all and
    `most_commit_ms` at most, and could not be stored `failed_commits` times. `waiting_records` were read and are not
    acknowledged yet; `free_bytes` is what is left of the memory for such. A transform `dropped` records, was
    skipped for those that it `failed` on, and `routed` rows elsewhere. A policy `left_out` records. `dead_letters` were
    to be written to the dead-letter topic, which failed `dead_letter_failures` times.
    """

    ages: tuple[int, ...] = ()
    age_sum_ms: int = 0
    roads: tuple[tuple[str, int], ...] = ()
    read_bytes: int = 0
    written_bytes: int = 0
    polls: int = 0
    read_records: int = 0
    most_read: int = 0
    commits: int = 0
    failed_commits: int = 0
    commit_ms: int = 0
    most_commit_ms: int = 0
    waiting_records: int = 0
    free_bytes: int = 0
    dropped: int = 0
    failed: int = 0
    routed: int = 0
    left_out: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
