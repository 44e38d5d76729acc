"""Asks the processes that run a file's flows, on any host, to read their files again, and collects the answers."""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from twinlog.clock import SYSTEM, Clock, wall_ms
from twinlog.errors import TwinlogError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.producer.topic_writer import TopicWriter
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.topics.create import require_topics
from twinlog.mirror.topics.internal_topics import absent, reloads
from twinlog.model.topic_names import RELOADS
from twinlog.model.types import Alias, GroupId
from twinlog.ops.status.flow import others_of, processes_of
from twinlog.settings.flow import FlowSettings
from twinlog.worker.reload.reload_report import ReloadReport
from twinlog.worker.reload.reload_requests import ReloadRequest, answered_by, flow_id

APPEND_S = 10.0
ANSWERED_S = 60.0
"""How long an answer may take: a file with queries of Spark SQL is checked by a JVM."""

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class ReloadAnswers:
    """The answers to a question; the silent processes, each with its flows; the programs that run flows and lack the
    reload, for example MirrorMaker 2; and the troubles of targets."""

    reports: tuple[ReloadReport, ...] = ()
    silent: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    troubles: Mapping[Alias, str] = field(default_factory=dict)

    @property
    def nobody(self) -> bool:
        """Whether all processes of the flows are absent."""
        return not (self.reports or self.silent)


class ReloadAsker:
    """A question about `flows`, the flows of a file; use once."""

    def __init__(
        self,
        flows: Sequence[FlowSettings],
        by: str,
        *,
        only_look: bool = False,
        timeout_s: float = ANSWERED_S,
        connect: Connect = ClusterAdmin,
        clock: Clock = SYSTEM,
    ) -> None:
        self._by_target: dict[Alias, list[FlowSettings]] = defaultdict(list)
        for flow in flows:
            self._by_target[flow.target].append(flow)
        self._request = ReloadRequest(uuid.uuid4().hex, by, frozenset(map(flow_id, flows)), only_look)
        self._timeout_s = timeout_s
        self._connect = connect
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: dict[str, ReloadReport] = {}
        self._asked: dict[str, set[str]] = defaultdict(set)
        self._others: dict[str, str] = {}
        self._troubles: dict[Alias, str] = {}
        self._admins: list[ClusterAdmin] = []

    def waits(self) -> list[str]:
        """The pending answers of `request_reload`, which runs on another thread, in words."""
        with self._lock:
            silent = sorted(self._asked.keys() - self._reports.keys())
            clusters = [text for admin in self._admins if (text := admin.waits()) is not None]
        return clusters + [f"{process} has yet to answer" for process in silent]

    def request_reload(self) -> ReloadAnswers:
        """Ask on every target at the same time, and wait for the answer of each process that is found there."""
        threads = [
            threading.Thread(target=self._ask_on, args=(target, flows), daemon=True)
            for target, flows in self._by_target.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        silent = {name: tuple(sorted(flows)) for name, flows in self._asked.items() if name not in self._reports}
        reports = tuple(report for _, report in sorted(self._reports.items()))
        return ReloadAnswers(reports, dict(sorted(silent.items())), self._others, self._troubles)

    def _ask_on(self, target: Alias, flows: Sequence[FlowSettings]) -> None:
        admin = self._connect(target, flows[0].target_admin.client)
        with self._lock:
            self._admins.append(admin)
        try:
            admin.connect(LOOK_CONNECT_S)
            found = self._processes(admin, flows)
            with self._lock:
                for name, own in found.items():
                    self._asked[name] |= own
            if found:
                self._exchange(admin, flows[0], set(found))
        except TwinlogError as error:
            with self._lock:
                self._troubles[target] = told(error, "TW-WAIT-01")
        finally:
            with self._lock:
                self._admins.remove(admin)
            admin.close()

    def _processes(self, admin: ClusterAdmin, flows: Sequence[FlowSettings]) -> dict[str, set[str]]:
        """The processes that share these flows, each with its own."""
        found: dict[str, set[str]] = defaultdict(set)
        for flow in flows:
            group = admin.call(GroupAdmin(admin.client).described, GroupId(flow.group_id))
            for process in processes_of(group)[0]:
                found[process.name].add(flow.name)
            others = others_of(group, flow.group_id)
            if others is not None:
                with self._lock:
                    self._others[flow.name] = others
        return found

    def _exchange(self, admin: ClusterAdmin, flow: FlowSettings, names: set[str]) -> None:
        missing = absent([reloads(flow)], {flow.target: admin.topics()})
        require_topics(flow.name, admin, [one.new() for one in missing])
        reader = TopicReader(admin, RELOADS, last=0)
        # A topic that was created just now may be without a leader for a moment.
        reader.read_last({}, timeout_s=APPEND_S)
        writer = TopicWriter(admin.client, RELOADS, APPEND_S, "asking processes to reload", wait_s=APPEND_S)
        record = (self._request.key, self._request.encode())
        admin.call(partial(writer.append, [record], timestamp_ms=wall_ms(self._clock)))
        until = self._clock.monotonic() + self._timeout_s
        while names - self._reports.keys() and self._clock.monotonic() < until:
            for _, answer in reader.read():
                self._take(answer.key, answer.value)
            self._clock.sleep(LOOK_S)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        process = answered_by(key, self._request.id)
        report = None if process is None else ReloadReport.decode(value)
        if process is not None and report is not None:
            with self._lock:
                self._reports[process] = report
