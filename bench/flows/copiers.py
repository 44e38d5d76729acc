"""Copiers that copy nothing, in a process of its own: they speak the driver's protocol.

`python -m bench.flows.copiers PORT SECRET FLOW LEASE COPIERS` takes that lease and those that follow. Each copier beats
and reports once a second: on the partitions that it got since the last report, or, after the line `busy` on the input,
on all partitions, as under load; the line `idle` ends the reports on all partitions.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator

from twinlog.copier.reporter import INTERVAL_S
from twinlog.lease.channel import BEAT_S, Channel, DriverAddress, greet_as_copier
from twinlog.lease.messages import (
    Claim,
    CopierEnded,
    CopierHeartbeat,
    FromCopier,
    Grants,
    LeaseEnded,
    Release,
    Released,
    ReportMessage,
    Stop,
)
from twinlog.lease.progress import PartitionCounters, PartitionProgress, Report
from twinlog.model.types import SourceOffset, TargetOffset, TopicPartition

NEXT_LEASE_S = 0.5


class Pretender:
    """One copier: claims a share of each lease, holds what it is granted, releases what it is asked for."""

    def __init__(self, address: DriverAddress, flow: str, name: str) -> None:
        self.name = name
        self.lease = 0
        self.held: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()
        self._line = Channel.open(address)
        self._sending = threading.Lock()
        self._flow = flow
        greet_as_copier(self._line, flow, name)
        threading.Thread(target=self._listen, daemon=True).start()

    def claim(self, lease: int) -> None:
        self.lease = lease
        self._send(Claim(lease))

    def beat(self) -> None:
        self._send(CopierHeartbeat(time.monotonic()))

    def report(self, offset: int, *, busy: bool) -> None:
        """As if every partition that is new, or when `busy` every one, had come to `offset`, its end."""
        held = set(self.held)
        source, target = SourceOffset(offset), TargetOffset(offset)
        parts = tuple(
            PartitionProgress(topic, partition, source, target, source, PartitionCounters(1, 100, 3))
            for topic, partition in sorted(held if busy else held - self._reported)
        )
        self._reported = held
        now = int(time.time() * 1000)
        report = Report(self._flow, self.name, self.lease, now, INTERVAL_S, 0.01, partitions=parts)
        self._send(ReportMessage(report))

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                match self._line.receive():
                    case Grants(_, grants):
                        self.held |= {grant.source for grant in grants}
                    case Release(parts):
                        self.held -= set(parts)
                        self._send(Released(parts, ()))
                    case LeaseEnded(lease):
                        # What Spark's tasks do with the next micro-batch.
                        threading.Timer(NEXT_LEASE_S, self.claim, [lease + 1]).start()
                    case Stop():
                        self._send(CopierEnded())

    def _send(self, message: FromCopier) -> None:
        with self._sending:
            self._line.send(message)


def main() -> None:
    port, secret, flow, lease, count = sys.argv[1:]
    address = DriverAddress("127.0.0.1", int(port), bytes.fromhex(secret))
    copiers = [Pretender(address, flow, f"copier-{number}") for number in range(int(count))]
    for copier in copiers:
        copier.claim(int(lease))
    busy = threading.Event()
    threading.Thread(target=_listen, args=(busy, copiers), daemon=True).start()
    for tick in _every(BEAT_S):
        for copier in copiers:
            copier.beat()
            copier.report(tick, busy=busy.is_set())
            # Not all in the same moment, as real ones are not.
            time.sleep(BEAT_S / len(copiers) / 2)


def _listen(busy: threading.Event, copiers: list[Pretender]) -> None:
    for line in sys.stdin:
        if line.strip() == "busy":
            busy.set()
        elif line.strip() == "idle":
            busy.clear()
        print(json.dumps({"held": sum(len(copier.held) for copier in copiers)}), flush=True)


def _every(seconds: float) -> Iterator[int]:
    due = time.monotonic()
    tick = 0
    while True:
        yield tick
        tick += 1
        due += seconds
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
