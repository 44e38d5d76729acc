"""Reads the key of a stored segment at once; the code reads a partition's name once for all of its segments."""

from __future__ import annotations

from twinlog.mirror.offsets.segments import SegmentKey, decode_partition, decode_place, split_segment_key


def decode_segment_key(key: bytes | None) -> SegmentKey | None:
    """The content of a segment's key; None for any other key."""
    parts = split_segment_key(key)
    return None if parts is None else SegmentKey(decode_partition(parts[0]), *decode_place(parts[1]))
