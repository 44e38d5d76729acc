"""Hands out leases: which copier holds which partitions, and when a lease is over.

One instance per flow, on the driver. Spark decides where a task runs; the copier that a task finds there claims a slot
of the current lease here, and gets its partitions after whoever held them has let them go.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from twinlog.plan.assignment import Slots
from twinlog.task.grant import Grant, partition_from_json
from twinlog.task.wire import DEAD_S, Line
from twinlog.types import TopicPartition

log = logging.getLogger(__name__)

RELEASE_S = 4.0
"""A copier that does not let go within this time is cut off; it may not append any more by then, see `VALID_S`."""


class Session:
    """The driver's end of one copier."""

    def __init__(self, line: Line, name: str) -> None:
        self.name = name
        self.held: set[TopicPartition] = set()
        self.last_beat = time.monotonic()
        self.closed = False
        self._line = line
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Send; a broken line is noticed by whoever reads it."""
        try:
            with self._lock:
                self._line.send(message)
        except (OSError, EOFError):
            self.closed = True

    def close(self) -> None:
        self.closed = True
        self._line.close()


class Leases:
    """The leases of one flow.

    `grants(partitions)` looks up what a copier needs to begin; it may read the cluster. `failed(kind, text)` and
    `event(kind, text)` pass on what copiers say.
    """

    def __init__(
        self,
        flow: str,
        grants: Callable[[Sequence[TopicPartition]], list[Grant]],
        failed: Callable[[str, str], None],
        event: Callable[[str, str], None],
    ) -> None:
        self.flow = flow
        self._grants = grants
        self._failed = failed
        self._event = event
        self._changed = threading.Condition()
        self._sessions: set[Session] = set()
        self._slots: Slots = ()
        self._claimed: dict[int, Session] = {}
        self._lease = 0
        self._stopping = False
        self._claims = ThreadPoolExecutor(thread_name_prefix=f"claims {flow}")

    # The plan.

    @property
    def lease(self) -> int:
        """Number of the current lease; 0 before the first."""
        return self._lease

    def renew(self, slots: Slots | None = None) -> int:
        """End the current lease and begin the next, over `slots` if given; returns its number."""
        with self._changed:
            over = self._lease
            if slots is not None:
                self._slots = slots
            self._lease += 1
            self._claimed = {}
            sessions = list(self._sessions)
            planned = frozenset().union(*self._slots) if self._slots else frozenset()
            self._changed.notify_all()
        for session in sessions:
            gone = session.held - planned
            if gone:
                self._ask_release(session, gone)
            session.send({"type": "end", "lease": over})
        return self._lease

    def next_lease(self, after: int, timeout_s: float) -> int:
        """Wait for a lease newer than `after` that has work; `after` itself when there is none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or (self._lease > after and bool(self._slots)), timeout_s)
            if self._stopping or not self._slots:
                return after
            return max(after, self._lease)

    def slots(self) -> Slots:
        with self._changed:
            return self._slots

    # Copiers.

    def serve(self, line: Line, name: str) -> None:
        """Talk to one copier until its line ends; called on a thread of its own."""
        session = Session(line, name)
        with self._changed:
            self._sessions.add(session)
        try:
            while True:
                while not line.poll(0.5):
                    if session.closed:
                        return
                    if time.monotonic() - session.last_beat > DEAD_S:
                        log.warning("%s: copier %s is silent, its partitions are given to another", self.flow, name)
                        return
                if not self._take(session, line.receive()):
                    return
        except (OSError, EOFError):
            return
        finally:
            session.close()
            with self._changed:
                self._sessions.discard(session)
                self._claimed = {slot: holder for slot, holder in self._claimed.items() if holder is not session}
                session.held.clear()
                self._changed.notify_all()

    def _take(self, session: Session, message: dict[str, Any]) -> bool:
        kind = message["type"]
        session.last_beat = time.monotonic()
        if kind == "beat":
            session.send({"type": "beat", "at": message["at"]})
        elif kind == "claim":
            self._claims.submit(self._claim, session, message["lease"])
        elif kind == "released":
            with self._changed:
                session.held -= {partition_from_json(part) for part in message["partitions"]}
                self._changed.notify_all()
        elif kind == "failed":
            self._failed(message["kind"], message["text"])
        elif kind == "event":
            self._event(message["kind"], message["text"])
        elif kind == "bye":
            return False
        return True

    def _claim(self, session: Session, lease: int) -> None:
        try:
            self._give(session, lease)
        except Exception as error:
            log.exception("%s: lease %d of copier %s", self.flow, lease, session.name)
            self._failed(type(error).__name__, str(error))

    def _give(self, session: Session, lease: int) -> None:
        with self._changed:
            if lease != self._lease or self._stopping:
                session.send({"type": "end", "lease": lease})
                if self._stopping:
                    session.send({"type": "stop"})
                return
            free = [slot for slot in range(len(self._slots)) if slot not in self._claimed]
            if not free:
                session.send({"type": "end", "lease": lease})
                return
            slot = max(free, key=lambda index: (len(self._slots[index] & session.held), -index))
            self._claimed[slot] = session
            wanted = self._slots[slot]
            others = [(other, other.held & wanted) for other in self._sessions if other is not session]
            surplus = session.held - wanted
        for other, parts in others:
            if parts:
                self._ask_release(other, parts)
        if surplus:
            self._ask_release(session, surplus)
        with self._changed:
            self._changed.wait_for(
                lambda: not any(other.held & wanted for other in self._sessions if other is not session), RELEASE_S
            )
            for other in self._sessions:
                if other is not session and other.held & wanted:
                    log.warning("%s: copier %s does not let go, it is cut off", self.flow, other.name)
                    other.close()
            if lease != self._lease or session.closed:
                return
            missing = sorted(wanted - session.held)
            session.held |= set(missing)
        if missing:
            session.send({"type": "grant", "lease": lease, "grants": [g.as_json() for g in self._grants(missing)]})

    def _ask_release(self, session: Session, parts: frozenset[TopicPartition] | set[TopicPartition]) -> None:
        session.send({"type": "release", "partitions": [list(part) for part in sorted(parts)]})

    def stop(self, timeout_s: float) -> bool:
        """Ask every copier to let go and end; True when all did in time."""
        with self._changed:
            self._stopping = True
            sessions = list(self._sessions)
            self._changed.notify_all()
        for session in sessions:
            session.send({"type": "stop"})
        with self._changed:
            done = self._changed.wait_for(lambda: not self._sessions, timeout_s)
        self._claims.shutdown(wait=False)
        return done

    @property
    def unclaimed(self) -> bool:
        """Whether a slot of the current lease waits for a copier."""
        with self._changed:
            return len(self._claimed) < len(self._slots)

    def disband(self) -> None:
        """Ask every copier to let go: their query is about to be stopped."""
        with self._changed:
            sessions = list(self._sessions)
        for session in sessions:
            session.send({"type": "stop"})
        with self._changed:
            self._changed.wait_for(lambda: not self._sessions, RELEASE_S)

    @property
    def copiers(self) -> int:
        with self._changed:
            return len(self._sessions)
