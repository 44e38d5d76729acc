"""Lets a broker write down how many requests of each kind it answers, twice a second, and reads that.

A metrics reporter of ours in the broker's own process does it, see `RequestCounter.java`: a thread and a file, where a
reader by JMX would be one more JVM. It counts all clients alike, because Kafka's request metrics do.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from harness.errors import HarnessError
from harness.jars import KAFKA_VERSION, cache_dir, kafka_classpath, locked
from harness.java import java_command

_SOURCE = Path(__file__).with_name("RequestCounter.java")
_REPORTERS = f"org.apache.kafka.common.metrics.JmxReporter,{_SOURCE.stem}"
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


def counter_settings(file: Path) -> dict[str, str]:
    """Settings of a broker that counts into a file; it continues one that is there."""
    return {"metric.reporters": _REPORTERS, "twinlog.requests.file": str(file)}


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
    source = _SOURCE.read_bytes()
    kept = cache_dir() / "kafka" / f"request-counter-{sha256(source).hexdigest()[:12]}.jar"
    with locked(kept.with_suffix(".lock")):
        if kept.is_file():
            return kept
        javac = Path(java_command()).resolve().with_name("javac")
        if not javac.is_file():
            raise HarnessError(f"Counting requests needs a JDK: there is no {javac}. Install one or set JAVA_HOME.")
        clients = next(jar for jar in kafka_classpath() if jar.name == f"kafka-clients-{KAFKA_VERSION}.jar")
        with tempfile.TemporaryDirectory(prefix=".counter-", dir=kept.parent) as work:
            command = [str(javac), "--release", "17", "-cp", str(clients), "-d", work, str(_SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            if done.returncode != 0:
                raise HarnessError(f"{_SOURCE} could not be compiled:\n{done.stderr}")
            fresh = Path(work, kept.name)
            with zipfile.ZipFile(fresh, "w") as jar:
                for compiled in Path(work).glob("*.class"):
                    jar.write(compiled, compiled.name)
            fresh.rename(kept)
    return kept
