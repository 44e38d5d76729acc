"""Requests of `twinlog reload` from any host: a process reads them from a topic on each of its targets.

A process passes over a request for flows of other processes, and over an unreadable record.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import NotAppendedError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.produce_errors import Remedy, remedy_for
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.model.compact_json import ascii_json
from twinlog.model.topic_names import RELOADS
from twinlog.model.types import Alias
from twinlog.process.log_once import LogOnce
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings
from twinlog.worker.reload.reload_report import ReloadReport
from twinlog.worker.reload.reloading import Reloader

log = logging.getLogger(__name__)


REQUEST, ANSWER = b"reload ", b"answer "

FlowId = tuple[str, str]
"""A flow's name and its group: two sets of processes may run flows of the same name to the same cluster."""


@dataclass(frozen=True, slots=True)
class ReloadRequest:
    """A request to each process that runs a flow of `flows`: read the file again.

    With `only_look`, the process only answers with the changes. `by` names the requester, for the audit; `id` is unique
    for each request.
    """

    id: str
    by: str
    flows: frozenset[FlowId]
    only_look: bool = False

    @property
    def key(self) -> bytes:
        """The key of the request's record."""
        return REQUEST + self.id.encode()

    def encode(self) -> bytes:
        """The value of the request's record: a JSON object."""
        return ascii_json({"by": self.by, "flows": sorted(self.flows), "only_look": self.only_look})

    def concerns(self, flows: Iterable[FlowSettings]) -> bool:
        """Whether the request is for a process that runs these flows, or would run them."""
        return not self.flows.isdisjoint(map(flow_id, flows))

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> ReloadRequest | None:
        """A request from a record, perhaps of a newer version; None for another record."""
        if key is None or not key.startswith(REQUEST):
            return None
        try:
            found = json.loads(value or b"")
            flows = frozenset((str(name), str(group)) for name, group in found["flows"])
            return cls(key.removeprefix(REQUEST).decode(), str(found["by"]), flows, found["only_look"] is True)
        except (ValueError, TypeError, KeyError):
            return None


def flow_id(flow: FlowSettings) -> FlowId:
    """The name of a flow and of its group."""
    return flow.name, flow.group_id


def answer_key(request: str, process: str) -> bytes:
    """The key of the answer of a process to a request, by the id of the request."""
    return ANSWER + f"{request} {process}".encode()


def answered_by(key: bytes | None, request: str) -> str | None:
    """The process whose answer to a request is in a record; None for another record."""
    begin = ANSWER + f"{request} ".encode()
    return None if key is None or not key.startswith(begin) else key.removeprefix(begin).decode(errors="replace")


EVERY_S = 1.0
"""Seconds between two reads of the topic, and so the longest wait of a request."""

AGAIN_S, REFUSED_S = 5.0, 60.0
"""The pause after a fault, and after a refusal: a right may be granted later."""

ANSWER_S = 5.0
END_S = 2.0
KEPT = 20
"""The number of answers that are kept, for a request that came by way of several targets."""


class ReloadRequests:
    """The requests for a process: a thread for each target of its flows, because a target may be out of reach."""

    def __init__(self, reloader: Reloader, connect: Connect = ClusterAdmin, clock: Clock = SYSTEM) -> None:
        self._reloader = reloader
        self._connect = connect
        self._clock = clock
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._followed: dict[Alias, threading.Thread] = {}
        self._answers: OrderedDict[str, ReloadReport] = OrderedDict()
        self._logged = LogOnce(clock)

    def start(self) -> None:
        """Begin to follow the topics of the present targets; `start` is called again for later targets."""
        with self._lock:
            for flow in self._reloader.running.config.flows:
                if flow.target not in self._followed:
                    self._follow(flow.target, flow.target_admin.client)

    def stop(self) -> None:
        """End; waits up to two seconds for an answer under way."""
        self._stopping.set()
        deadline = self._clock.monotonic() + END_S
        for thread in self._followed.values():
            thread.join(max(0.0, deadline - self._clock.monotonic()))

    def _follow(self, target: Alias, client: ClientSettings) -> None:
        thread = threading.Thread(target=self._run, args=(target, client), name=f"reload {target}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning(
                "TW-RELOAD-07: twinlog reload cannot ask this process by way of %s, SIGHUP can: %s", target, error
            )
        else:
            self._followed[target] = thread

    def _run(self, target: Alias, client: ClientSettings) -> None:
        admin: ClusterAdmin | None = None
        reader: TopicReader | None = None
        while not self._stopping.is_set():
            rest_s = EVERY_S
            try:
                if admin is None:
                    admin = self._connect(target, client)
                if not admin.client.connected:
                    admin.connect()
                reader = self._read(admin, reader)
            except RefusedError as error:
                rest_s = REFUSED_S
                with self._lock:
                    new = self._logged.is_new((target, str(error)))
                if new:
                    # If the cluster refuses the whole client, its flows log the reason.
                    why = str(error) if error.resource else error.message_id or str(error)
                    log.info("twinlog reload cannot ask this process by way of %s, SIGHUP can: %s", target, why)
            except (TwinlogError, RuntimeError, OSError) as error:
                rest_s = AGAIN_S
                log.debug("%s: reading requests failed: %s", target, error)
            except Exception:
                rest_s = AGAIN_S
                log.exception("TW-FAULT-01: requests of %s", target)
            self._clock.wait(self._stopping, rest_s)
        if admin is not None:
            admin.close()

    def _read(self, admin: ClusterAdmin, reader: TopicReader | None) -> TopicReader:
        """Handle the added requests. Requests from before the start were for an earlier version of the file."""
        if reader is None:
            reader = TopicReader(admin, RELOADS, optional=True, last=0)
            for _ in reader.read():
                pass
            # If the topic is still missing, all its later records are new.
            return reader if reader.exists else TopicReader(admin, RELOADS, optional=True)
        for _, record in reader.read():
            request = ReloadRequest.decode(record.key, record.value)
            if request is not None and request.concerns(self._reloader.running.config.flows):
                self._answer(admin, request)
        return reader

    def _answer(self, admin: ClusterAdmin, request: ReloadRequest) -> None:
        with self._lock:
            report = self._answers.get(request.id)
            if report is None:
                report = self._reloader.reload(f"twinlog reload of {request.by}", only_look=request.only_look)
                self._answers[request.id] = report
                while len(self._answers) > KEPT:
                    self._answers.popitem(last=False)
        writer = TopicWriter(admin.client, RELOADS, ANSWER_S, "answering twinlog reload", wait_s=ANSWER_S)
        for answer in (report, replace(report, keys=(), more_keys=len(report.keys) + report.more_keys, warnings=())):
            record = (answer_key(request.id, report.process), answer.encode())
            try:
                admin.call(partial(writer.append, [record], timestamp_ms=report.at_ms))
                break
            except NotAppendedError as error:
                if remedy_for(error.code) is not Remedy.SPLIT:
                    raise
        self.start()
