"""Runs Kafka's own Java tools: the independent witness of what is on a broker."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError
from harness.jvm.command import jvm_command
from harness.jvm.jars import KAFKA_VERSION, Parts

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"


def run_tool(
    main_class: str,
    args: Sequence[str | Path],
    *,
    stdin: str | None = None,
    deadline_s: float = 60.0,
    heap: str = "256m",
    version: str = KAFKA_VERSION,
    parts: Parts = "all",
) -> str:
    """Run a tool, or a Java file, to its end and return its stdout.

    Raises HarnessError with its stderr when it fails or hangs.
    """
    command = [*jvm_command(heap, "quick", main_class, version, parts), *(str(arg) for arg in args)]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=deadline_s)
    except subprocess.TimeoutExpired as late:
        raise HarnessError(f"{main_class} did not end within {deadline_s:g} s.") from late
    if done.returncode != 0:
        raise HarnessError(f"{main_class} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def dump_log(data: Path, topic: str, partition: int = 0, *, version: str = KAFKA_VERSION) -> str:
    """Batches and records of all segments of one partition as Kafka's dump tool prints them; `data` is a node's."""
    segments = sorted((data / f"{topic}-{partition}").glob("*.log"))
    if not segments:
        raise HarnessError(f"{data} holds no segment of {topic}-{partition}.")
    names = ",".join(str(segment) for segment in segments)
    return run_tool(DUMP_LOG, ["--deep-iteration", "--print-data-log", "--files", names], version=version)
