"""Takes requests of `twinlog reload`, from any host: a process follows a topic on each of its targets for them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import replace
from functools import partial

from twinlog.clock import SYSTEM, Clock
from twinlog.errors import NotAppendedError, RefusedError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.protocol.error_codes import TOO_LARGE
from twinlog.log_once import LogOnce
from twinlog.model.internal_topics import RELOADS
from twinlog.model.types import Alias
from twinlog.settings.flow import ClientSettings
from twinlog.worker.reload.reload_messages import ReloadRequest, answer_key
from twinlog.worker.reload.reload_report import ReloadReport
from twinlog.worker.reload.reloading import Reloader

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""How often the topic is looked at, and so how long a request waits at most."""

AGAIN_S, REFUSED_S = 5.0, 60.0
"""The pause after a fault, and after a refusal: a right may be granted later."""

ANSWER_S = 5.0
END_S = 2.0
KEPT = 20
"""How many answers are kept, for a request that came by way of several targets."""


class ReloadRequests:
    """The requests for one process: one thread for each target of its flows, as one of these may be away."""

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
        """Begin to follow the topics of the targets that there are; a cluster that comes later is followed then."""
        with self._lock:
            for flow in self._reloader.running.config.flows:
                if flow.target not in self._followed:
                    self._follow(flow.target, flow.target_admin.client)

    def stop(self) -> None:
        """End; an answer under way is waited for, but no longer than two seconds."""
        self._stopping.set()
        deadline = self._clock.monotonic() + END_S
        for thread in self._followed.values():
            thread.join(max(0.0, deadline - self._clock.monotonic()))

    def _follow(self, target: Alias, client: ClientSettings) -> None:
        thread = threading.Thread(target=self._run, args=(target, client), name=f"reload {target}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("twinlog reload cannot ask this process by way of %s, SIGHUP can: %s", target, error)
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
                    log.info("twinlog reload cannot ask this process by way of %s, SIGHUP can: %s", target, error)
            except (TwinlogError, RuntimeError, OSError) as error:
                rest_s = AGAIN_S
                log.debug("%s: requests are not read: %s", target, error)
            except Exception:
                rest_s = AGAIN_S
                log.exception("requests of %s", target)
            self._clock.wait(self._stopping, rest_s)
        if admin is not None:
            admin.close()

    def _read(self, admin: ClusterAdmin, reader: TopicReader | None) -> TopicReader:
        """Take requests that were added. Requests from before the start were for the version that was read then."""
        if reader is None:
            reader = TopicReader(admin, RELOADS, optional=True, last=0)
            for _ in reader.read():
                pass
            # Where there is no topic yet, all of it will be new.
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
                if error.code not in TOO_LARGE:
                    raise
        self.start()
