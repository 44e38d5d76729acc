"""Topics that another process copies under another group id: MirrorMaker 2, or a second process of twinlog.

Processes of a flow share a group, so only one of them copies. A file with a `group.id` of its own takes some topics of
a flow over while MirrorMaker 2 copies the rest, with the same remote topics and the same positions. Then the group
protects nothing. MirrorMaker 2 writes the partitions of its tasks to its topic of configurations
(`task.assigned.partitions`, Kafka class MirrorSourceTaskConfig), and twinlog reports its topics to the progress topic.
A topic that is found there is left out until the other process has left it.

A stopped MirrorMaker 2 counts as well: at its next start it first runs the tasks that are stored, and only then reads
its file (Kafka class DistributedHerder, handleRebalanceCompleted). So a topic is free once a MirrorMaker 2 without the
topic has stored its tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Iterable, Mapping

from twinlog.clock import wall_ms
from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import KeptRecord, LastRecords, taken
from twinlog.model.groups import CONNECT_PROTOCOL, GroupMembers, client_id_of
from twinlog.model.topic_names import progress_topic
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.process.log_once import AGAIN_S, LogOnce
from twinlog.settings.flow import SOURCE_CONNECTOR, FlowSettings
from twinlog.worker.status.report import DRIVER_KEY, EVERY_S, DriverReport, FlowState, decode_report

log = logging.getLogger(__name__)

STALE_S = 6 * EVERY_S
"""A process whose last report is older has ended, or hangs."""

SETTLE_MS = 15_000
"""After the tasks of MirrorMaker 2 have changed, the old tasks may append and store positions for this time
(`task.shutdown.graceful.timeout.ms` and `offset.flush.timeout.ms` of 5 seconds each)."""

LAST = 256
"""The number of records before the end of the progress topic that are read first; copiers report there, too."""

_ENDED = frozenset(
    state.value for state in (FlowState.STOPPED, FlowState.FAILED, FlowState.DONE, FlowState.HELD, FlowState.NOTHING)
)
_TASK, _COMMIT = f"task-{SOURCE_CONNECTOR}-".encode(), f"commit-{SOURCE_CONNECTOR}".encode()


class OtherCopiers:
    """Finds topics of a flow that processes of another group copy now; `target` is the flow's target."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._settings = settings
        self._target = target
        self._logged = LogOnce(target.clock)
        self._mirror_maker = _MirrorMakerTasks(settings, target)
        self._progress = TopicReader(target, TopicName(progress_topic(settings.source)), optional=True, last=LAST)
        self._reports: dict[str, DriverReport] = {}
        """The last report of each other group."""
        self._heard_at: dict[str, float] = {}
        """When a report of each other group arrived here after the first look, in monotonic seconds."""
        self._looked = False

    def refusals(
        self, topics: Iterable[TopicName], copied: Container[TopicName], target: Container[TopicName]
    ) -> dict[TopicName, str]:
        """The reason to leave out each of these source topics that another process copies.

        `copied` are the topics that this process copies already, `target` all topics of the target. Raises
        ClusterError.
        """
        topics = list(topics)
        found: dict[TopicName, str] = {}
        if self._settings.kind is not None:
            return found
        if self._settings.has_own_group:
            found |= self._mirror_maker.refusals(topics, copied, target)
        # A process that keeps MirrorMaker 2's group looks only before it takes a topic.
        if self._settings.has_own_group or any(topic not in copied for topic in topics):
            for topic, reason in self._of_twinlog(topics, copied, target).items():
                found.setdefault(topic, reason)
        return found

    def _of_twinlog(
        self, topics: Iterable[TopicName], copied: Container[TopicName], target: Container[TopicName]
    ) -> dict[TopicName, str]:
        if progress_topic(self._settings.source) not in target:
            return {}
        try:
            self._read_reports()
        except RefusedError as error:
            self._log_hidden(error)
            return {}
        found: dict[TopicName, str] = {}
        for group, report in self._reports.items():
            theirs = {progress.topic for progress in report.topics}
            # Of two processes that copy a topic already, the group that is first by name keeps the topic.
            shared = [
                topic
                for topic in topics
                if topic in theirs and (topic not in copied or group < self._settings.group_id)
            ]
            taking = any(topic not in copied for topic in shared)
            if not shared or report.state in _ENDED or not self._lives(group, report, taking=taking):
                continue
            reason = (
                f"process {report.process} of twinlog copies it with group.id = {group}; stop that process, or take "
                "the topic out of its `topics`; this process waits, and takes the topic over"
            )
            found |= dict.fromkeys(shared, reason)
        return found

    def _lives(self, group: str, report: DriverReport, *, taking: bool) -> bool:
        """Whether the process of a report still copies; `taking` if this process would otherwise take topics of it.

        The clocks of two hosts may differ by minutes. So a report that arrived lately counts by the clock of this
        process, and before topics are taken its membership in the other group decides about a report that looks old.
        """
        heard_at = self._heard_at.get(group)
        if heard_at is not None and self._target.clock.monotonic() - heard_at <= STALE_S:
            return True
        if heard_at is None and abs(wall_ms(self._target.clock) - report.at_ms) <= STALE_S * 1000:
            return True
        if not taking:
            return False
        try:
            seen = self._target.call(GroupAdmin(self._target.client).described, GroupId(group))
        except RefusedError as error:
            self._log_hidden(error)
            return False
        # Other members of a group that several flows share run other flows.
        return any(member.client_id == client_id_of(report.process) for member in seen.members)

    def _log_hidden(self, error: RefusedError) -> None:
        if self._logged.is_new(str(error), AGAIN_S):
            log.warning(
                "TW-TOPIC-26: %s: another process of twinlog that copies the same topics would be overlooked: %s",
                *(self._settings.name, error),
            )

    def _read_reports(self) -> None:
        for _, record in self._progress.read():
            if record.key is None or not record.key.startswith(DRIVER_KEY):
                continue
            report = decode_report(record.value)
            if report is None or report.flow != self._settings.name:
                continue
            if report.group and report.group != self._settings.group_id:
                self._reports[report.group] = report
                if self._looked:
                    self._heard_at[report.group] = self._target.clock.monotonic()
        self._looked = True


class _MirrorMakerTasks:
    """The topics of the tasks of a running MirrorMaker 2, for a flow with a group of its own."""

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._group = GroupId(settings.mirror_maker_group_id)
        self._topic = TopicName(f"mm2-configs.{settings.source}.internal")
        self._target = target
        self._reader = TopicReader(target, self._topic, optional=True)
        self._news: LastRecords = {}
        self._tasks: dict[int, frozenset[TopicName]] = {}
        self._count: int | None = None
        self._changed_ms: int | None = None
        """When the tasks were last stored (Unix time), by the clock of MirrorMaker 2."""
        self._seen_at: float | None = None
        """When this process saw a change of the tasks, in monotonic seconds: the clocks may differ."""
        self._looked = False

    def refusals(
        self, topics: Iterable[TopicName], copied: Container[TopicName], target: Container[TopicName]
    ) -> dict[TopicName, str]:
        """The reason for each topic that MirrorMaker 2 copies, or would copy at its next start. Raises ClusterError."""
        try:
            group = self._target.call(GroupAdmin(self._target.client).described, self._group)
        except RefusedError as error:
            if self._topic not in target:
                # MirrorMaker 2 creates that topic at its start, so it has never run here.
                return {}
            return dict.fromkeys(topics, f"whether MirrorMaker 2 copies it is hidden from this login: {error}")
        alive = group.protocol == CONNECT_PROTOCOL and bool(group.members)
        name = f"group {self._group} of {self._target.alias}"
        runs = f"MirrorMaker 2 runs: {name} has the members {_who(group)}" if alive else "MirrorMaker 2 is stopped"
        if self._topic not in target:
            why = f"{runs}, and topic {self._topic}, which lists their topics, is missing; stop MirrorMaker 2"
            return dict.fromkeys(topics, why) if alive else {}
        try:
            self._read()
        except RefusedError as error:
            return dict.fromkeys(topics, f"{runs}, and whether it copies the topic is hidden from this login: {error}")
        settles = alive and self._settles()
        found: dict[TopicName, str] = {}
        for topic in topics:
            number = self._task_of(topic)
            if number is not None and alive:
                found[topic] = (
                    f"{runs}, and its task {SOURCE_CONNECTOR}-{number} copies it; take the topic out of MirrorMaker "
                    "2's `topics` and restart MirrorMaker 2: twinlog waits, and takes the topic over"
                )
            elif number is not None:
                found[topic] = (
                    f"{runs}, and its task {SOURCE_CONNECTOR}-{number} would copy it at the next start; start "
                    "MirrorMaker 2 without the topic, or, if MirrorMaker 2 has ended for good, remove `group.id` from "
                    f"this file, so that twinlog holds {name} itself"
                )
            elif settles and topic not in copied:
                found[topic] = (
                    f"{runs}, and has just changed its tasks: their last records may be under way; twinlog takes the "
                    "topic over some seconds later"
                )
        return found

    def _settles(self) -> bool:
        """Whether the tasks changed so lately that the old tasks may still append."""
        clock = self._target.clock
        seen = self._seen_at is not None and clock.monotonic() - self._seen_at < SETTLE_MS / 1000
        return seen or (self._changed_ms is not None and wall_ms(clock) - self._changed_ms < SETTLE_MS)

    def _task_of(self, topic: TopicName) -> int | None:
        """The task that has a partition of the topic; tasks beyond the last committed number are left over."""
        return next(
            (
                number
                for number, topics in sorted(self._tasks.items())
                if topic in topics and (self._count is None or number < self._count)
            ),
            None,
        )

    def _read(self) -> None:
        self._reader.read_last(self._news)
        for key, (value, at_ms) in taken(self._news, _value_and_time):
            if key == _COMMIT:
                self._changed_ms = at_ms
                self._seen_at = self._target.clock.monotonic() if self._looked else None
                count = _object(value).get("tasks")
                self._count = count if isinstance(count, int) else None
            elif key.startswith(_TASK) and (number := key.removeprefix(_TASK)).isdigit():
                self._tasks[int(number)] = assigned_topics(value)
        self._looked = True


def _value_and_time(kept: KeptRecord) -> tuple[bytes | None, int]:
    return kept.value(), kept.timestamp


def assigned_topics(value: bytes | None) -> frozenset[TopicName]:
    """The topics of a task by its configuration in Connect's topic of configurations."""
    properties = _object(value).get("properties")
    assigned = properties.get("task.assigned.partitions") if isinstance(properties, dict) else None
    if not isinstance(assigned, str):
        return frozenset()
    return frozenset(TopicName(part.strip().rpartition("-")[0]) for part in assigned.split(",") if part.strip())


def _object(value: bytes | None) -> Mapping[str, object]:
    try:
        found = json.loads(value or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(group: GroupMembers) -> str:
    return listed(f"{one.client_id} at {one.host.lstrip('/')}" for one in group.members)
