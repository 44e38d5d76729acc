"""What the clusters hold before each run: topics, records, and groups that have read all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.produce import NewRecord

FIRST_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with so many records in each partition."""

    partitions: int = 1
    per_partition: int = 20
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.partitions * self.per_partition


STOCK: Mapping[str, Mapping[str, Topic]] = {
    "one": {
        "orders": Topic(2, 40, {"retention.ms": "63072000000000", "compression.type": "lz4"}),
        "payments": Topic(config={"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "86400000"}),
        "audit.v1": Topic(),
        "my-Books_2": Topic(),
        "notes.internal": Topic(),
        "old.replica": Topic(),
    },
    "two": {"events": Topic(2, 15), "clicks": Topic(config={"max.message.bytes": "2000000"})},
    "three": {"sensors": Topic(1, 10), "device.heartbeats": Topic()},
}
"""By cluster. `notes.internal` was left out up to Kafka 3.9 and is mirrored since, `old.replica` is left out by
default, and `device.heartbeats` passes every filter as one of heartbeats, though it is a user's."""

GROUPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "one": {"readers": ("orders", "payments", "audit.v1"), "connect-sink": ("payments",)},
    "two": {"viewers": ("events",)},
    "three": {"watchers": ("sensors",)},
}
"""Groups and the topics that each has read. A name that begins with `connect-` is left out by default."""

ONE = ("orders", "payments", "audit.v1", "my-Books_2", "notes.internal")
"""What is mirrored of `one` by default."""
TWO = tuple(STOCK["two"])
THREE = tuple(STOCK["three"])


def records(cluster: str, topic: str, partition: int) -> list[NewRecord]:
    """Records with all that a copy must keep: keys and none, values and none, headers more than once, and times."""
    noise = random.Random(f"{cluster}/{topic}/{partition}")
    found = []
    for number in range(STOCK[cluster][topic].per_partition):
        # A compacted topic takes no record without a key.
        key = b"key-%d" % (number % 5) if topic == "payments" or number % 3 else None
        value = None if number % 7 == 3 and key else b"%s %06d " % (topic.encode(), number) + noise.randbytes(40)
        headers: tuple[tuple[str, bytes | None], ...] = (("h", b"1"), ("none", None), ("h", b"\x00\xff"))
        found.append(NewRecord(value, key, headers if number % 2 else (), FIRST_MS + 1000 * number))
    return found
