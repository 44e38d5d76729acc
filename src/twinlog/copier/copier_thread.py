"""Keeps a copier in a Spark worker's process: a thread that lives across leases and answers the driver.

Spark reuses its Python workers, so the next lease finds the copier of the lease before. The copier stops when `GRACE_S`
pass before the next lease, or when the driver goes.

The driver takes a copier that is silent for seconds for dead and gives its partitions to another copier. So a second
thread answers the driver while a transform keeps the copier busy.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from twinlog.clock import LONG_AGO, Clock
from twinlog.copier.copier import Copier
from twinlog.copier.partition.context import CopierListener
from twinlog.copier.reporter import Reporter
from twinlog.errors import DriverLostError, MessageError, TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.net.loop import Loop
from twinlog.lease.channel import BEAT_S, DEAD_S, Channel, DriverAddress, LeaseTicket, greet_as_copier
from twinlog.lease.messages import (
    Claim,
    CopierEnded,
    CopierHeartbeat,
    CopierHeartbeatResponse,
    CopierLogLine,
    Drop,
    Event,
    Failed,
    FromCopier,
    Grant,
    Grants,
    Hold,
    IdRequest,
    LeaseEnded,
    LentId,
    Message,
    Release,
    Released,
    ReportMessage,
    SetLogLevel,
    Stop,
    TaskEnded,
)
from twinlog.lease.progress import Report
from twinlog.model.call import TransformCall, TransformImport
from twinlog.model.held import HeldPartition
from twinlog.model.types import TopicPartition
from twinlog.process.flow_levels import FLOW_LEVELS
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


MOST_TEXT = 4000
"""The most characters of a line of the log that goes to the driver."""

REPORTED_S = 10.0
"""A call of this duration is reported, and again each time that its duration has doubled."""


class HeartbeatFallback:
    """Sends heartbeats in place of a busy copier.

    `call()` is the running call or None, and `send` reaches the driver; both may be used from any thread.
    """

    def __init__(
        self,
        call: Callable[[], TransformCall | TransformImport | None],
        send: Callable[[FromCopier], None],
        clock: Clock,
    ) -> None:
        self._call = call
        self._send = send
        self._now = clock.monotonic
        self._reported: TransformCall | TransformImport | None = None
        self._report_at_s = REPORTED_S

    def run(self, over: threading.Event) -> None:
        """Check every second until `over` is set."""
        while not over.wait(BEAT_S):
            self.send_heartbeat()

    def send_heartbeat(self) -> None:
        """Send a heartbeat if a call keeps the copier from sending it."""
        call, now = self._call(), self._now()
        if call is None or now - call.since < BEAT_S:
            return
        self._send(CopierHeartbeat(now))
        if call is not self._reported:
            self._reported, self._report_at_s = call, REPORTED_S
        lasted = now - call.since
        if lasted >= self._report_at_s:
            self._report_at_s = 2 * lasted
            self._send(Event("transform", f"{call.shown(lasted)}; this task copies nothing meanwhile"))


GRACE_S = 20.0
"""Longer than Spark takes from a lease to the next lease, even if an executor was lost meanwhile. Shorter than the
minute after which Spark ends an idle Python process."""


class DriverReports(CopierListener):
    """Sends the reports of a copier to the driver, through the copier's thread."""

    def __init__(self, thread: CopierThread) -> None:
        self._thread = thread

    def report_failure(self, partition: TopicPartition | None, error: TwinlogError) -> None:
        self._thread.send_message(Failed(partition, type(error).__name__, told(error, "TW-FLOW-01")))

    def report_event(self, kind: str, text: str) -> None:
        self._thread.reporter.add_event(kind, text)
        self._thread.send_message(Event(kind, text))

    def report_held(self, held: HeldPartition) -> None:
        self._thread.send_message(Hold(held))


class CopierThread:
    """The copier of a flow in this process.

    `loop` brings the clock and the connections to brokers, `connect` the connection to the driver. Raises
    VersionMismatchError when the driver has another version. Raises DriverLostError, OSError, EOFError or
    multiprocessing.AuthenticationError when the driver is unreachable or silent.
    """

    def __init__(
        self,
        ticket: LeaseTicket,
        loop: Loop | None = None,
        connect: Callable[[DriverAddress], Channel] = Channel.open,
        *,
        bridge: bool = False,
    ) -> None:
        """With `bridge` the copier works in the bridge and has a name that begins with `bridge-`."""
        self._bridge = bridge
        self._loop = Loop() if loop is None else loop
        self._now = self._loop.clock.monotonic
        place = "bridge-" if bridge else ""
        self.name = f"{place}{socket.gethostname()}-{os.getpid()}-{int(self._now() * 1e9) & 0xFFFFFF:x}"
        self.ended = threading.Event()
        self.error: TwinlogError | None = None
        self._ticket = ticket
        self._connect = connect
        try:
            self._line, settings = self._open_line()
        except BaseException:
            self._loop.close()
            raise
        self._lease = 0
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._claimed_until = self._now() + GRACE_S
        self._in_lease = False
        self._valid_until = LONG_AGO
        self._leaving = False
        self._stopping = False
        self._lent: list[LentId] = []
        self._lending = self._loop.signal()
        listener = DriverReports(self)
        self._copier = Copier(self._loop, settings.for_task(ticket.share), listener, self._allowed, self._borrow)
        self.reporter = Reporter(
            self._copier, self.name, self._report, lambda error: listener.report_failure(None, error)
        )
        self._thread = threading.Thread(target=self._run, name=f"copier {ticket.flow}", daemon=True)
        self._thread.start()
        if settings.transform is not None:
            stand_in = HeartbeatFallback(lambda: self._copier.call, self.send_message, self._loop.clock)
            threading.Thread(
                target=stand_in.run, args=(self.ended,), name=f"stand-in {ticket.flow}", daemon=True
            ).start()

    # Called by the task's thread.

    def _open_line(self) -> tuple[Channel, FlowSettings]:
        line = self._connect(self._ticket.address)
        line.break_after(DEAD_S)
        try:
            greet_as_copier(line, self._ticket.flow, self.name)
            # The settings are read after the greeting: settings of another version may be unreadable, and the error
            # would hide the reason.
            return line, self._ticket.settings()
        except BaseException:
            line.close()
            raise

    def join_lease(self, ticket: LeaseTicket, over: threading.Event, task: int = -1) -> bool:
        """Work under a lease from now on, for Spark's `task`, or in the bridge.

        Returns False when this copier is about to end, so the task must start another copier. `over` is set once the
        copier has stopped working under this lease.
        """
        claim = Claim(ticket.lease, task, self._bridge)
        with self._lock:
            if self._leaving or self.ended.is_set():
                return False
            self._lease, self._in_lease, self._over = ticket.lease, True, over
            self.reporter.lease = ticket.lease
            self._loop.call_threadsafe(lambda: self.send_message(claim))
        return True

    def works_under(self, lease: int) -> bool:
        """Whether a joined lease still lasts."""
        return not self.ended.is_set() and self._in_lease and self._lease == lease

    def leave_lease(self, lease: int) -> None:
        """The task ends before the lease does: another task will join the lease in a moment."""
        with self._lock:
            if self.works_under(lease):
                self._in_lease, self._claimed_until = False, self._now() + GRACE_S
                self._loop.call_threadsafe(lambda: self.send_message(TaskEnded(lease)))

    # Everything below runs on the copier's thread.

    def _run(self) -> None:
        try:
            self._loop.run(self._main)
        except TwinlogError as error:
            self.error = error
        except (OSError, EOFError) as error:
            if not self._stopping:
                self.error = DriverLostError(f"the connection to the driver broke: {error!r}")
        except Exception as error:
            # The task raises any error.
            log.exception("TW-FAULT-02: copier %s", self.name)
            self.error = TwinlogError(f"internal error in copier {self.name}: {error!r}")
        finally:
            self._copier.stop()
            FLOW_LEVELS.clear_level(self._ticket.flow, self._send_log_line)
            with self._sending:
                self._line.close()
            with self._lock:
                self.ended.set()
                self._over.set()
            self._loop.close()

    async def _main(self) -> None:
        self._loop.start(self._beat)
        self._loop.start(self.reporter.run)
        started = self._loop.spawn(self._start)
        while True:
            await self._loop.readable(self._line)
            while self._line.poll():
                self._take(self._line.receive(), started)

    async def _start(self) -> None:
        try:
            await self._copier.start()
        except TwinlogError as error:
            self._copier.context.listener.report_failure(None, error)
            raise
        self._loop.start(self.reporter.keep_publishing)

    def _allowed(self) -> bool:
        return self._now() < self._valid_until

    async def _beat(self) -> None:
        while not self._stopping:
            self.send_message(CopierHeartbeat(self._now()))
            await self._loop.sleep(BEAT_S)
            if not self._in_lease and self._now() > self._claimed_until:
                self._loop.start(self._leave)
                return

    def _take(self, message: Message, started: Any) -> None:
        """Do the driver's request. Raises MessageError for any other message."""
        match message:
            case CopierHeartbeatResponse(at, valid_s):
                self._valid_until = max(self._valid_until, at + valid_s)
            case Grants(_, grants):
                if not self._leaving:
                    self._loop.start(self._grant, self._copier.add_grants(grants), started)
            case Release(partitions):
                self._loop.start(self._release, partitions)
            case LeaseEnded(lease):
                with self._lock:
                    if self._lease == lease:
                        self._in_lease, self._claimed_until = False, self._now() + GRACE_S
                        self._over.set()
            case LentId():
                self._lent.append(message)
                self._lending.set()
            case SetLogLevel(level, for_s):
                FLOW_LEVELS.set_level(self._ticket.flow, level, for_s, self._send_log_line)
                log.debug("%s: it copies %d partitions", self._ticket.flow, len(self._copier.granted))
            case Stop():
                self._loop.start(self._leave)
            case Drop():
                self._drop()
            case _:
                raise MessageError(f"the driver sent {type(message).__name__}, which it may not send")

    async def _borrow(self) -> LentId:
        """Return a transactional id from the driver; the wait ends with the line if the driver stays silent."""
        self._lent.clear()
        self.send_message(IdRequest())
        while not self._lent:
            await self._lending.wait()
        return self._lent[-1]

    async def _grant(self, accepted: list[Grant], started: Any) -> None:
        await started
        await self._copier.begin_partitions(accepted)

    async def _release(self, partitions: Collection[TopicPartition]) -> None:
        # A partition that began a moment ago is missing in the reports so far.
        self.reporter.report_now()
        await self._copier.release_partitions(partitions)
        undrained = self._copier.undrained.intersection(partitions)
        if undrained and self._copier.transactions is not None:
            # The open transaction must be aborted before another copier begins; the driver does that for a lost copier.
            self._line.shut_down()
            return
        await self.reporter.flush()
        self.send_message(Released(tuple(partitions), tuple(undrained)))

    async def _leave(self) -> None:
        """Release all partitions in order and report that to the driver, which then closes the line."""
        with self._lock:
            if self._leaving:
                return
            self._leaving = True
            self._in_lease = False
        await self._release(self._copier.granted)
        self._stopping = True
        self.send_message(CopierEnded())
        # The executor may wait for this task alone before the executor ends.
        self._over.set()

    def _drop(self) -> None:
        """End at once: another process may run the flow, so all writes must stop, those of positions included."""
        self._valid_until = LONG_AGO
        with self._lock:
            self._leaving = True
            self._in_lease = False
            self._over.set()
        self._stopping = True
        self.send_message(CopierEnded())

    def _report(self, report: Report) -> bool:
        """Send the driver a report.

        Returns False while the driver reads too slowly, so that the copier's thread can continue.
        """
        if not self._line.writable:
            return False
        self.send_message(ReportMessage(report))
        return True

    def _send_log_line(self, level: int, text: str) -> None:
        """Send the driver a line of the log; any thread may call it. A driver that reads too slowly misses the line."""
        # The copier may close the line meanwhile.
        with suppress(OSError):
            if not self.ended.is_set() and self._line.writable:
                self.send_message(CopierLogLine(level, text[:MOST_TEXT]))

    def send_message(self, message: FromCopier) -> None:
        """Send the driver a message; a broken connection ends the thread."""
        try:
            with self._sending:
                self._line.send(message)
        except (OSError, EOFError):
            # The reading side notices the broken line and ends the thread.
            self._valid_until = LONG_AGO
            self._line.shut_down()
