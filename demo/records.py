"""What the demo writes: five topics, each with a codec and a kind of record of its own."""

from __future__ import annotations

import random
import string
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.produce import Codec, NewRecord

_random = random.Random(2026)
_WORDS = ["".join(_random.choices(string.ascii_lowercase, k=_random.randint(3, 9))).encode() for _ in range(800)]
YEAR_2020_MS = 1_577_836_800_000


def _texts(size: int) -> list[bytes]:
    """Some texts of about `size` bytes, as compressible as prose."""
    return [b" ".join(_random.choices(_WORDS, k=size // 7)) for _ in range(400)]


_SHORT, _MIDDLE, _LONG = _texts(80), _texts(400), _texts(2_000)


def _now_ms() -> int:
    return int(time.time() * 1000)


def _order(number: int) -> NewRecord:
    value = b'{"order":%d,"text":"%b"}' % (number, _MIDDLE[number % 400])
    return NewRecord(value, b"customer-%d" % (number % 977), (("trace", b"%016x" % number),), _now_ms())


def _click(number: int) -> NewRecord:
    return NewRecord(b'{"click":%d,"page":"%b"}' % (number, _SHORT[number % 400]), timestamp=_now_ms())


def _reading(number: int) -> NewRecord:
    """Timestamps of long ago, as an importer writes them."""
    return NewRecord(
        b"%d;%b" % (number, _SHORT[number * 7 % 400]), b"sensor-%d" % (number % 53), (), YEAR_2020_MS + number * 1_000
    )


def _audit(number: int) -> NewRecord:
    """Tombstones, an empty key, a header name that repeats, a header without a value."""
    value = None if number % 10 == 0 else b"%d %b" % (number, _SHORT[number % 400])
    headers = (("by", b"user-%d" % (number % 7)), ("by", b"proxy"), ("note", None), ("blank", b""))
    return NewRecord(value, b"" if number % 5 == 0 else b"%d" % (number % 101), headers, _now_ms())


def _page(number: int) -> NewRecord:
    return NewRecord(b"%d %b" % (number, _LONG[number % 400]), b"page-%d" % number, (), _now_ms())


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """A topic of the first cluster; `share` is how many of a hundred records go to it, `config` its own settings."""

    name: str
    partitions: int
    codec: Codec
    share: int
    record: Callable[[int], NewRecord]
    config: Mapping[str, str] = field(default_factory=dict)


TIMED = "orders"
"""The topic whose record timestamps are when a record was written, so that its delay means something."""

TOPICS = (
    DemoTopic(TIMED, 4, "lz4", 45, _order),
    DemoTopic("clicks", 3, "none", 30, _click),
    # Records from 2020 would be deleted after a week, counted from their timestamps.
    DemoTopic("readings", 2, "zstd", 15, _reading, {"retention.ms": "-1"}),
    DemoTopic("audit", 2, "snappy", 7, _audit),
    DemoTopic("pages", 1, "gzip", 3, _page),
)

ORDER = [topic for topic in TOPICS for _ in range(topic.share)]
"""A hundred turns; shuffled, so that every topic gets its share all the time."""
_random.shuffle(ORDER)
