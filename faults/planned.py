"""The planned move: producers and groups go from a healthy source to the target under load, by twinlog's command and by
hand with MirrorMaker 2; each record that a group skips or repeats counts, and for how long no producer could write.

By hand means what guides to MirrorMaker 2 say, done by a program that loses no time: stop the producers, wait until
the copies have as many records, start the producers on the target; let the consumers read to the end, stop them, wait
two rounds of checkpoints and of group offsets, and start them there.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from faults.emergency import DEADLINE_S, HERE, PARTITIONS, RATE, REMOTE, STEADY, THERE, TOPIC, Reader, across, resume
from harness.acls import Acl, create_acls
from harness.checks.checker import Identity, Load, identify
from harness.cluster import KafkaCluster
from harness.consume import Record, consume
from harness.errors import HarnessError
from harness.topics import create_topic, offsets, topics
from harness.wait import wait_for

WRITER = "connect"
"""A user who may write; no super user, so that ACLs count."""

COMMAND_S = 300.0
STEADY_S = 5.0
ROUNDS_S = 4.0
"""Two rounds of checkpoints and two of group offsets, one second each, as the drill's file has them."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """Records on the source and on the target, what the group read twice or never, and for how long no producer could
    write: from the last record that the source took to the first that the target did."""

    written: int
    copied: int
    repeated: int
    skipped: int
    unavailable_s: float

    def __str__(self) -> str:
        return (
            f"{self.written} records written, {self.copied} on the target; group {STEADY}: {self.skipped} skipped, "
            f"{self.repeated} repeated; producers waited {self.unavailable_s:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator does: until producers may write to the target, and once the group has read everything."""

    move_producers: Callable[[Load], None]
    move_group: Callable[[], None]


def run_planned(
    source: KafkaCluster, target: KafkaCluster, require_alive: Callable[[], None], operator: Operator
) -> PlannedMove:
    """Move under load, with a mirror between the clusters. Raises TimeoutError when it does not bring all across."""
    create_topic(source, TOPIC, PARTITIONS)
    create_acls(source, [Acl(TOPIC, f"User:{WRITER}", "WRITE")])
    load = Load(source, TOPIC, PARTITIONS, rate=RATE, user=WRITER).start()
    reader = Reader(source, TOPIC, STEADY)
    try:
        wait_for(lambda: across(source, target, require_alive), DEADLINE_S, f"group {STEADY} is known on the target")
        time.sleep(STEADY_S)
        operator.move_producers(load)
        if TOPIC not in topics(target):
            create_topic(target, TOPIC, PARTITIONS)
        with Load(target, TOPIC, PARTITIONS, rate=RATE, name="fresh"):
            wait_for(lambda: _written(target, TOPIC) > 0, DEADLINE_S, "the target takes records")
        wanted = _written(source, TOPIC)
        wait_for(lambda: reader.committed >= wanted, DEADLINE_S, f"group {STEADY} has read everything")
    finally:
        load.abandon()
        before = reader.stop()
    operator.move_group()
    first_ms = min(record.timestamp for record in consume(target, TOPIC))
    here = consume(source, TOPIC)
    written, after = _identities(here), set(resume(target, STEADY))
    return PlannedMove(
        written=len(written),
        copied=len(_identities(consume(target, REMOTE))),
        repeated=len(set(before) & after),
        skipped=len(written - set(before) - after),
        unavailable_s=(first_ms - max(record.timestamp for record in here)) / 1000,
    )


def _identities(records: Iterable[Record]) -> set[Identity]:
    return {identity for record in records if (identity := identify(record))}


def _written(cluster: KafkaCluster, topic: str) -> int:
    return sum(offsets(cluster, topic, number)[1] for number in range(PARTITIONS))


def by_command(file: Path) -> Operator:
    """`twinlog switchover`, and the same again once consumers have stopped; producers go on when it says so."""
    command = [sys.executable, "-m", "twinlog", "switchover", str(file), "--from", HERE, "--to", THERE]
    ends: list[Callable[[], None]] = []

    def begin(_: Load) -> None:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert process.stderr is not None
        told: list[str] = []

        def end() -> None:
            told.extend(process.stderr or ())
            if process.wait(COMMAND_S):
                raise HarnessError(f"switchover ended with {process.returncode}: {''.join(told)}")
            print("".join(told), end="", flush=True)

        for line in process.stderr:
            told.append(line)
            if " s  watch " in line:
                ends.append(end)
                return
        end()

    def again() -> None:
        ends.pop()()
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
        if done.returncode:
            raise HarnessError(f"switchover ended with {done.returncode}: {done.stderr}")

    return Operator(begin, again)


def by_hand(source: KafkaCluster, target: KafkaCluster) -> Operator:
    """What an operator of MirrorMaker 2 does."""

    def move_producers(load: Load) -> None:
        load.stop()
        wanted = _written(source, TOPIC)
        wait_for(lambda: _written(target, REMOTE) >= wanted, DEADLINE_S, "the copies have as many records")

    return Operator(move_producers, lambda: time.sleep(ROUNDS_S))
