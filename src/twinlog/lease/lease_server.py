"""The driver's listening end: an address for the tasks and planners of all flows, and an address for the bridge."""

from __future__ import annotations

import contextlib
import errno
import logging
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Listener

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import EngineError, MessageError
from twinlog.lease.channel import DEAD_S, Channel, DriverAddress, IncompatiblePeer, receive_hello
from twinlog.lease.leases import Leases
from twinlog.lease.messages import (
    CopierEnded,
    CopierHello,
    Hello,
    NextRequest,
    NextResponse,
    PlannerHello,
    Share,
    SharesRequest,
    SharesResponse,
    Stop,
)
from twinlog.process.log_once import AGAIN_S, LogOnce

log = logging.getLogger(__name__)
LONG_POLL_S = 0.4
"""How long a planner's question may wait; Spark reports no progress of an idle query meanwhile."""

HANDSHAKE_S = 30.0
"""A caller is disconnected if its first message, after the proof of the secret, comes later than this."""

PAUSE_S = 1.0
CLOSE_S = 2.0


class QueryFlows:
    """The flows of a query, as its planner asks for them; flows may come and go while the query runs.

    Usually a query has a single flow, with a task for each share of its lease. Several flows share a single task: Spark
    runs at most as many tasks at once as it has slots, and a task keeps its slot for a whole lease.
    """

    def __init__(self, name: str, flows: Iterable[Leases] = (), clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self.name = name
        self._flows: dict[str, Leases] = {}
        self._changed = threading.Event()
        self.refused: str | None = None
        """A refused planner of another version, or None."""
        for leases in flows:
            self.add(leases)

    def add(self, leases: Leases) -> None:
        """From the next micro-batch on, tasks run the copiers of this flow, too."""
        self._flows = {**self._flows, leases.flow: leases}
        leases.unclaimed_again = self._changed.set
        self._changed.set()

    def remove(self, leases: Leases) -> None:
        """The next micro-batch leaves this flow out."""
        self._flows = {name: other for name, other in self._flows.items() if other is not leases}

    @property
    def mismatch(self) -> str | None:
        """A process of Spark that is refused because of another version, or None."""
        return self.refused or next((flow.refused for flow in self._flows.values() if flow.refused is not None), None)

    def next_batch(self, after: int, timeout_s: float) -> int:
        """The number of the next micro-batch, or `after` if the time passes first.

        The planner asks between two micro-batches, while all tasks of this query have ended. A micro-batch is due when
        a share waits for a copier.
        """
        deadline = self._clock.monotonic() + timeout_s
        while True:
            self._changed.clear()
            if any(leases.unclaimed for leases in self._flows.values()):
                return after + 1
            if not self._clock.wait(self._changed, max(0.0, deadline - self._clock.monotonic())):
                return after

    def shares(self) -> list[list[Share]]:
        """The shares of each task of a micro-batch: the first task has the first share of each flow, and so on."""
        tasks: list[list[Share]] = []
        for leases in self._flows.values():
            lease, shares = leases.current()
            tasks += [[] for _ in range(shares - len(tasks))]
            for number in range(shares):
                tasks[number].append(Share(leases.flow, lease, number))
        return tasks


class LeaseServer:
    """Accepts lines from copiers, for the `Leases` of their flow, and from planners, for their query's `QueryFlows`.

    Copiers connect to `host`. The server listens at `bind_address` (`host` if empty) and at `port` (any free port if
    0). Raises EngineError when this machine lacks the address, or another process has the port.
    """

    def __init__(
        self,
        host: str,
        flows: Mapping[str, Leases] | None = None,
        clock: Clock = SYSTEM,
        *,
        bind_address: str = "",
        port: int = 0,
    ) -> None:
        self._clock = clock
        self.flows: dict[str, Leases] = dict(flows or {})
        """The leases of each flow that this process runs, by the flow's name; flows come and go."""
        self.bundles: dict[str, QueryFlows] = {}
        """The flows of each query, by the query's name."""
        self._closed = False
        self._news = LogOnce(clock)
        self._lock = threading.Lock()
        self._listening: list[tuple[Listener, DriverAddress, threading.Thread]] = []
        self._secret = secrets.token_bytes(32)
        self.address = self.open_address(host, bind_address=bind_address, port=port)

    def open_address(self, host: str, *, bind_address: str = "", port: int = 0) -> DriverAddress:
        """Listen at a further address, which becomes `address`; earlier addresses stay valid. Parameters and errors are
        as for the constructor.
        """
        own = bind_address or host
        try:
            listener = Listener((own, port), backlog=128)
        except OSError as error:
            raise _refused(own, port, error) from error
        near = {"0.0.0.0": "127.0.0.1", host: None}.get(own, own)
        self.address = DriverAddress(host, int(listener.address[1]), self._secret, near)
        thread = threading.Thread(target=self._accept, args=(listener,), name="lease server", daemon=True)
        thread.start()
        self._listening.append((listener, self.address, thread))
        return self.address

    @property
    def first_address(self) -> DriverAddress:
        """The address since the begin, for a process on this machine that outlives a change of `address`."""
        return self._listening[0][1].here

    def _accept(self, listener: Listener) -> None:
        while not self._closed:
            try:
                connection = listener.accept()
            except (OSError, EOFError) as error:
                if not self._closed:
                    self._warn("a connection was not accepted", error)
                    # The cause may last, as when this process has too many open files.
                    self._clock.sleep(PAUSE_S)
                continue
            line = Channel(connection)
            try:
                threading.Thread(target=self._serve, args=(line,), name="line", daemon=True).start()
            except RuntimeError as error:
                # As when this user has reached the limit of threads. The caller tries again.
                self._warn("a connection was not accepted", error)
                line.close()
                self._clock.sleep(PAUSE_S)

    def _warn(self, what: str, error: Exception) -> None:
        """Log an error from time to time: callers try again each second, for as long as it takes."""
        with self._lock:
            new = self._news.is_new((what, repr(error)), AGAIN_S)
        if new:
            log.warning("TW-LEASE-04: %s: %r", what, error)

    def _serve(self, line: Channel) -> None:
        try:
            caller = self._greet(line)
            if isinstance(caller, PlannerHello):
                self._plan(line, caller.query)
            elif isinstance(caller, CopierHello):
                # Another thread may remove a flow meanwhile.
                leases = self.flows.get(caller.flow)
                if leases is None:
                    _dismiss(line)
                else:
                    leases.serve_copier(line, caller.copier)
            else:
                line.close()
            if isinstance(caller, IncompatiblePeer):
                self._report(caller)
        except AuthenticationError:
            log.warning("TW-LEASE-03: a connection was refused: its caller does not know the secret")
            line.close()
        except RuntimeError as error:
            # The thread limit is reached again: the caller's partitions are treated as lost.
            self._warn("a connection was closed", error)
            line.close()
        except MessageError as error:
            self._warn("a connection was closed", error)
            line.close()
        except (OSError, EOFError, ValueError):
            # ValueError: a stranger answered the challenge with bytes that are invalid text.
            line.close()

    def _report(self, stranger: IncompatiblePeer) -> None:
        """Report a refused task or planner of another version; Spark runs a task again up to four times."""
        with self._lock:
            new = self._news.is_new((stranger.flow, stranger.version), AGAIN_S)
        if new:
            log.error("TW-LEASE-05: %s", stranger.text)
        leases = None if stranger.flow is None else self.flows.get(stranger.flow)
        if leases is not None:
            leases.refuse(f"TW-LEASE-05: {stranger.text}")
        bundle = None if stranger.query is None else self.bundles.get(stranger.query)
        if bundle is not None:
            bundle.refused = f"TW-LEASE-05: {stranger.text}"

    def _greet(self, line: Channel) -> Hello | IncompatiblePeer:
        """The caller's first message; read on the line's own thread, so that a silent caller delays only itself."""
        watch = threading.Timer(HANDSHAKE_S, line.shut_down)
        watch.daemon = True
        watch.start()
        try:
            line.challenge(self._secret)
            return receive_hello(line)
        finally:
            watch.cancel()

    def _plan(self, line: Channel, query: str) -> None:
        """Answer a planner while its query has flows."""
        while True:
            question = line.receive()
            bundle = self.bundles.get(query)
            if bundle is None:
                break
            match question:
                case NextRequest(after):
                    line.send(NextResponse(bundle.next_batch(after, LONG_POLL_S)))
                case SharesRequest():
                    line.send(SharesResponse(tuple(map(tuple, bundle.shares()))))
                case _:
                    raise MessageError(f"a planner sent {type(question).__name__}, which it may not send")
        line.close()

    def close(self) -> None:
        self._closed = True
        for listener, address, thread in self._listening:
            # Unblocks accept().
            with contextlib.suppress(OSError):
                socket.create_connection((address.here.host, address.port), timeout=1).close()
                # The port stays taken while the thread is in accept(), and the next server of this process may want
                # the port.
                thread.join(CLOSE_S)
            listener.close()


def _dismiss(line: Channel) -> None:
    """Have a copier end in order after its flow has ended.

    A broken line would fail its task, and Spark would run the task again.
    """
    line.break_after(DEAD_S)
    line.send(Stop())
    while line.poll(DEAD_S):
        if isinstance(line.receive(), CopierEnded):
            break
    line.close()


def _refused(host: str, port: int, error: OSError) -> EngineError:
    if error.errno == errno.EADDRINUSE:
        return EngineError(
            f"copiers cannot reach this process: port {port} of {host} (twinlog.driver.port) is taken, as by another "
            "process with this file; give each on this machine one of its own, or 0 for any that is free",
            message_id="TW-LEASE-06",
        )
    return EngineError(
        f"copiers cannot reach this process: it cannot wait for them at {host}:{port} ({error.strerror or error}); set "
        "twinlog.driver.bind.address to an address of this machine, or 0.0.0.0 for all of them, and "
        "twinlog.driver.host to what copiers know it by",
        message_id="TW-LEASE-07",
    )
