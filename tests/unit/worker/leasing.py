"""Leases of one flow, and copiers at the other end of their lines that do as they are asked, or do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from typing import TypeVar

from harness.wait import wait_for
from twinlog.lease.channel import Channel
from twinlog.lease.leases import Leases
from twinlog.lease.ledger import Assignment
from twinlog.lease.messages import (
    Claim,
    CopierEnded,
    CopierHeartbeat,
    CopierHeartbeatResponse,
    FromCopier,
    Grant,
    Grants,
    Message,
    Release,
    Released,
    Stop,
)
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TopicName, TopicPartition
from twinlog.worker.status.flow_status import FlowStatus

M = TypeVar("M")
PARTS = [TopicPartition(TopicName("t"), number) for number in range(6)]


def assignment(*shares: Sequence[int]) -> Assignment:
    return tuple(frozenset(PARTS[number] for number in share) for share in shares)


class Copier:
    """The other end of a line: does what a copier does with what it receives, and remembers it."""

    def __init__(self, leases: Leases, name: str, *, lets_go: bool = True, beats: bool = True) -> None:
        self.name = name
        self.holds: set[TopicPartition] = set()
        self.heard: list[Message] = []
        self.drained: dict[TopicPartition, bool] = {}
        self.undrained: set[TopicPartition] = set()
        self.lets_go = lets_go
        self.cut_off = threading.Event()
        self.changed: Callable[[Copier, set[TopicPartition]], None] = lambda copier, holds: None
        self._lock = threading.Lock()
        ours, theirs = Pipe()
        self._line = Channel(ours)
        self._serving = threading.Thread(target=leases.serve_copier, args=(Channel(theirs), name), daemon=True)
        self._serving.start()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if beats:
            self.send(CopierHeartbeat(1.0))

    def send(self, message: FromCopier) -> None:
        with self._lock:
            self._line.send(message)

    def claim(self, lease: int, task: int = -1, *, bridge: bool = False) -> None:
        self.send(Claim(lease, task, bridge))

    def die(self) -> None:
        """As a killed process does: its line ends. Both ends have seen that when this returns."""
        self._line.shut_down()
        self._serving.join(60)
        self._reading.join(60)

    def _read(self) -> None:
        try:
            while True:
                self._take(self._line.receive())
        except (OSError, EOFError):
            self.holds.clear()
            self.cut_off.set()

    def _take(self, message: Message) -> None:
        self.heard.append(message)
        match message:
            case Grants(_, grants):
                self.drained.update({grant.source: grant.drained for grant in grants})
                self.holds |= {grant.source for grant in grants}
                self.changed(self, self.holds)
            case Release(parts) if self.lets_go:
                self.release(parts)
            case Stop() if self.lets_go:
                self.release(tuple(self.holds))
                self.send(CopierEnded())

    def release(self, parts: Sequence[TopicPartition]) -> None:
        self.holds -= set(parts)
        self.changed(self, self.holds)
        self.send(Released(tuple(parts), tuple(part for part in parts if part in self.undrained)))

    def received(self, cls: type[M]) -> list[M]:
        return [message for message in list(self.heard) if isinstance(message, cls)]


class World:
    """Leases with their surroundings."""

    def __init__(self) -> None:
        self.failures: list[tuple[str, str]] = []
        self.events: list[tuple[str, str]] = []
        self.looked_up: list[list[TopicPartition]] = []
        self.lookup = threading.Event()
        self.lookup.set()
        self.copiers: list[Copier] = []
        self.flow_status = FlowStatus()
        self.leases = Leases(
            "a->b",
            self._grants,
            lambda kind, text: self.failures.append((kind, text)),
            lambda kind, text: self.events.append((kind, text)),
            reported=self.flow_status.add_report,
            gone=self.flow_status.remove_copier,
        )

    def _grants(self, parts: Sequence[TopicPartition]) -> list[Grant]:
        self.looked_up.append(list(parts))
        self.lookup.wait(60)
        remote = TopicName("a.t")
        return [Grant(part, TopicPartition(remote, part.partition), None, 1000, Position(7, 5)) for part in parts]

    def copier(self, name: str, **how: bool) -> Copier:
        copier = Copier(self.leases, name, **how)
        self.copiers.append(copier)
        wait_for(lambda: copier.received(CopierHeartbeatResponse) or not how.get("beats", True), 60, f"{name} is known")
        return copier

    def close(self) -> None:
        for copier in self.copiers:
            copier.die()
        self.leases.stop(0)


def require(condition: Callable[[], bool], what: str) -> None:
    wait_for(condition, 60, what, every_s=0.002)
