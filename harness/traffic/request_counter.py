"""Lets a broker write down how many requests of each kind it answers, twice a second, and reads that.

A metrics reporter of ours in the broker's own process does it, see `RequestCounter.java`: a thread and a file, where a
reader by JMX would be one more JVM. It counts all clients alike, because Kafka's request metrics do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.jvm.plugin import plugin_jar

_SOURCE = Path(__file__).with_name("RequestCounter.java")
_JMX = "org.apache.kafka.common.metrics.JmxReporter"
_BYTES = "Bytes"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a broker answered within `seconds` before `at` (seconds since 1970).

    `data` are bytes of records that clients wrote and read meanwhile.
    """

    at: float
    seconds: float
    data: int
    requests: dict[str, int]


def counter_settings(file: Path, version: str) -> dict[str, str]:
    """Settings of a broker of a release of Kafka that counts into a file; it continues one that is there."""
    # Those of 2.x have the other reporter by themselves, and end where they get it twice.
    reporters = [_SOURCE.stem] if version.startswith("2.") else [_JMX, _SOURCE.stem]
    return {"metric.reporters": ",".join(reporters), "twinlog.requests.file": str(file)}


def read_samples(lines: IO[str]) -> Iterator[Sample]:
    """What was written since these lines were read last; a line that is still being written comes the next time."""
    while True:
        place = lines.tell()
        line = lines.readline()
        if not line.endswith("\n"):
            lines.seek(place)
            return
        at, length, *words = line.split()
        counts = {name: int(count) for name, count in (word.split("=") for word in words)}
        yield Sample(int(at) / 1000, max(int(length), 1) / 1000, counts.pop(_BYTES, 0), counts)


def counter_jar() -> Path:
    """The reporter as a jar, compiled on first use. Raises HarnessError where there is no JDK to do it."""
    return plugin_jar(_SOURCE)
