"""Finds the fences that flows have left on a cluster: their processes were killed, and their groups are empty.

The next process of a flow removes the fence of a killed process. Flows that left the file, and disabled flows that lack
heartbeats, run in none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.topics.fence_notes import AllFenceNotes, FenceOwner
from twinlog.model.acls import ResourceType, TopicAcl
from twinlog.model.topics import listed
from twinlog.model.types import GroupId
from twinlog.settings.flow import FlowSettings

REMOVE = "twinlog acls FILE --missing prints the commands that remove its ACLs"


@dataclass(frozen=True, slots=True)
class LeftFence:
    """The ACLs on a cluster that a flow has left there."""

    owner: FenceOwner
    acls: tuple[TopicAcl, ...]

    def __str__(self) -> str:
        topics, logins = (listed({str(name) for name in names}) for names in zip(*self._names(), strict=True))
        return (
            f"the fence of {self.owner.flow} keeps {logins} from writing to {topics}, and its group {self.owner.group} "
            "is empty"
        )

    def _names(self) -> Iterable[tuple[str, str]]:
        return ((acl.topic, acl.principal) for acl in self.acls)


def owners_of(flows: Iterable[FlowSettings]) -> set[FenceOwner]:
    """The owners whose next process removes their fences: flows that copy, or that write heartbeats."""
    return {
        FenceOwner(flow.name, flow.group_id)
        for flow in flows
        if flow.copies or (flow.kind is None and flow.emit_heartbeats_interval_s is not None)
    }


class LeftFences:
    """The left fences on a cluster, apart from the fences of the `known` owners. Used by a single thread at a time."""

    def __init__(self, cluster: ClusterAdmin, known: Collection[FenceOwner]) -> None:
        self._cluster = cluster
        self._known = known
        self._notes = AllFenceNotes(cluster)
        self._groups = GroupAdmin(cluster.client)
        self._before: set[FenceOwner] = set()

    def find(self) -> list[LeftFence]:
        """The left fences now, in order. Raises ClusterError.

        A login that lacks the rights to read ACLs, notes or groups finds fewer fences.
        """
        noted = {
            owner: acls
            for owner, acls in self._notes.read().items()
            if acls and owner.group and owner not in self._known
        }
        if not noted:
            return []
        try:
            there = self._cluster.call(describe_acls, self._cluster.client, ResourceType.TOPIC)
        except RefusedError:
            return []
        present = {acl.of_topic for acl in there or ()}
        found = [
            LeftFence(owner, tuple(sorted(acls & present, key=str)))
            for owner, acls in sorted(noted.items())
            if acls & present
        ]
        return [one for one in found if self._is_idle(one.owner)]

    def describe_lasting(self) -> str | None:
        """The fences that this look and the look before have found: a flow that starts again takes its fence over.

        Raises ClusterError.
        """
        found = self.find()
        lasting = [str(one) for one in found if one.owner in self._before]
        self._before = {one.owner for one in found}
        return "; ".join(lasting) or None

    def _is_idle(self, owner: FenceOwner) -> bool:
        try:
            return not self._cluster.call(self._groups.described, GroupId(owner.group)).members
        except RefusedError:
            return False
