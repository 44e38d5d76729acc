"""Finds by content how much of a replay has arrived: an earlier one may have ended in the middle."""

from __future__ import annotations

from typing import NamedTuple

from twinlog.arrow.bodies import first_difference, same_bytes
from twinlog.errors import CopyError
from twinlog.kafka.record.batch import HEADER_SIZE
from twinlog.ops.verify.log_reader import LogReader


class Arrived(NamedTuple):
    """So many records are there, and the source offset after the last of them."""

    records: int
    next_source: int


def find_arrived(source: LogReader, into: LogReader, *, begin_lost: bool = False) -> Arrived:
    """Compare what the topic has, all of it, with the source's range from its begin on.

    Raises CopyError where it has something else: it is not the topic of this replay, or with `begin_lost` it may have
    what the source has deleted since.
    """
    count = 0
    while True:
        ours, theirs = source.whole_batch(source.end), into.whole_batch(into.end)
        if ours is not None and theirs is not None:
            (records, batch), (copies, copy) = ours, theirs
            if (
                (batch.record_count, batch.length, batch.base_timestamp, batch.codec, batch.is_log_append_time)
                == (copy.record_count, copy.length, copy.base_timestamp, copy.codec, False)
            ) and same_bytes(
                records[batch.start + HEADER_SIZE : batch.end], copies[copy.start + HEADER_SIZE : copy.end]
            ):
                count += batch.record_count
                source.skip_batch()
                into.skip_batch()
                continue
        there, _ = into.rows(into.end)
        if there is None:
            return Arrived(count, source.position)
        mine, _ = source.rows(source.end)
        same = 0 if mine is None else first_difference(mine, there)
        if mine is None or (same < min(len(mine), len(there))):
            if begin_lost and not count and not same:
                raise CopyError(
                    f"{source.partition} begins at offset {source.position} by now (retention), and {into.partition} "
                    "with another record: what an earlier replay has copied from before cannot be compared any more; "
                    "give another topic for what is left (--into), or delete this one"
                )
            at, place = int(there.offsets[same]), source.position if mine is None else int(mine.offsets[same])
            raise CopyError(
                f"{into.partition} has at offset {at} another record than {source.partition} at offset {place}: it is "
                "not what an earlier replay of this range has left; give another topic (--into), or delete this one"
            )
        count += same
        source.take(int(mine.offsets[same - 1]) + 1)
        into.take(int(there.offsets[same - 1]) + 1)
        source.more_at_once()
        into.more_at_once()
