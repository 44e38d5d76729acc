from __future__ import annotations

import google_crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from twinlog.kafka.record.stamp import replace_head


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 300_000))
@example(b"a", b"b", 0)
@example(b"a", b"b", 1 << 20)
def test_corrects_the_checksum_for_a_new_head(old: bytes, new: bytes, rest: int) -> None:
    size = min(len(old), len(new))
    old, new = old[:size], new[:size]
    tail = bytes(range(251)) * (rest // 251 + 1)
    tail = tail[:rest]
    assert replace_head(google_crc32c.value(old + tail), old, new, rest) == google_crc32c.value(new + tail)


def test_a_wrong_checksum_stays_wrong() -> None:
    tail = b"tail" * 9
    wrong = google_crc32c.value(b"old" + tail) ^ 4
    assert replace_head(wrong, b"old", b"new", len(tail)) != google_crc32c.value(b"new" + tail)
