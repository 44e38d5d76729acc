"""The driver's end of the line to a copier."""

from __future__ import annotations

import threading

from twinlog.clock import SYSTEM, Clock
from twinlog.lease.channel import Channel
from twinlog.lease.messages import ToCopier
from twinlog.model.types import TopicPartition


class CopierSession:
    """The driver's knowledge of a copier.

    `held` are the partitions that the copier may copy, `leaving` the held partitions that it was asked to release. A
    thread that decides to grant or to release holds `order` until the message is sent, so that messages go in the order
    of the decisions. `order` is taken before the lock of the leases, never after it.
    """

    def __init__(self, line: Channel, name: str, clock: Clock = SYSTEM) -> None:
        self.name = name
        self.task = -1
        """Spark's number of the copier's last task that claimed a share."""
        self.held: set[TopicPartition] = set()
        self.leaving: set[TopicPartition] = set()
        self.last_beat = clock.monotonic()
        self.closed = False
        self.order = threading.RLock()
        self._line = line

    def send(self, message: ToCopier) -> None:
        """Send a message; the thread that reads the line notices a broken line."""
        try:
            with self.order:
                self._line.send(message)
        except (OSError, EOFError):
            self.closed = True

    def close(self) -> None:
        """Disconnect the copier; the thread that reads its line then sees the end."""
        self.closed = True
        self._line.shut_down()
