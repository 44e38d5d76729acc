"""The processes that run a flow, by their group and their last reports.

The file of a switchover must be the file of the process.

A file that is left over from a hand-over has other topics or another group. Its switchover would wait for a process
with another file, or would leave topics of the running process behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from twinlog.errors import RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.model.groups import TWINLOG_PROTOCOL, GroupListing
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.ops.status.last_report import LastReportReader
from twinlog.ops.status.state import ENDED, STALE_S
from twinlog.settings.flow import FlowSettings
from twinlog.worker.status.report import DriverReport


@dataclass(frozen=True, slots=True)
class FlowProcesses:
    """The fresh reports about a flow: of the process in the file's group `group`, and of a process in another group;
    None if it is unreported. A `wave` moves only a part of the topics."""

    own: DriverReport | None = None
    other: DriverReport | None = None
    group: str = ""
    wave: str = ""

    @classmethod
    def at(cls, reports: LastReportReader, now_ms: int, flow: FlowSettings, wave: str = "") -> FlowProcesses:
        """The processes of a flow of the file at a moment in Unix time, by the reports that were read last."""

        def fresh(report: DriverReport | None) -> DriverReport | None:
            if report is None or report.state in ENDED or now_ms - report.at_ms >= STALE_S * 1000:
                return None
            return report

        others = filter(None, map(fresh, reports.others.values()))
        return cls(fresh(reports.report), next(others, None), flow.group_id, wave)

    def mismatches(self, staying: Collection[TopicName], *, runs: bool | None) -> Iterator[str]:
        """The differences between a file and the file of the running process, each with the way out.

        `staying` are topics of the source that the file leaves out, and `runs` tells whether the file's group has
        members.
        """
        other = self.other
        if other is not None and self.own is None and not runs:
            yield (
                f"process {other.process} runs flow {other.flow} in group {other.group}, and FILE has group "
                f"{self.group}: give the file of that process"
            )
        if self.own is not None and not self.wave:
            left = {topic.topic for topic in self.own.topics}.intersection(staying)
            if left:
                yield (
                    f"{listed(left)}: process {self.own.process} copies {'it' if len(left) == 1 else 'them'}, and FILE "
                    "leaves producers there behind: give the file of that process, or move a part by --wave NAME"
                )


def read_copiers(flow: FlowSettings, target: ClusterAdmin) -> GroupListing | None:
    """The group of the processes that run a flow, None if the target lists none. Raises ClusterError."""
    listing: Mapping[GroupId, GroupListing] = target.call(GroupAdmin(target.client).listed)
    return listing.get(GroupId(flow.group_id))


def has_members(flow: FlowSettings, target: ClusterAdmin, copiers: GroupListing | None) -> bool | None:
    """Whether the group `copiers` of a flow's processes has members; None if the group is hidden.

    A Connect worker may keep its group on a third cluster. Raises ClusterError.
    """
    if copiers is not None:
        return not copiers.empty
    if flow.kind is not None:
        return None
    with suppress(RefusedError):
        return bool(target.call(GroupAdmin(target.client).described, GroupId(flow.group_id)).members)
    return None


def is_of_other_program(flow: FlowSettings, copiers: GroupListing | None) -> bool:
    """Whether another program has the flow now, so that an earlier report of twinlog is out of date."""
    if copiers is None or copiers.empty or flow.kind is not None:
        return False
    return copiers.protocol not in ("", TWINLOG_PROTOCOL)
