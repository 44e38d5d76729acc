"""Reads the groups of one cluster: what could not be read is reported as unknown, not as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import LOADING_S, GroupAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.groups import GroupListing, GroupOffsets
from twinlog.model.types import GroupId

AGAIN_S = 0.2
TRIES = 3
"""So often a group is asked for offsets in transactions whose coordinator moves each time."""


@dataclass(slots=True)
class ClusterGroups:
    """The groups of one cluster: as it lists them, and what they have committed."""

    listed: Mapping[GroupId, GroupListing] = field(default_factory=dict)
    offsets: Mapping[GroupId, GroupOffsets] = field(default_factory=dict)
    in_transaction: frozenset[GroupId] = frozenset()
    """Groups that have committed more, in transactions that have not ended."""
    silent: Mapping[GroupId, str] = field(default_factory=dict)
    """Groups without a coordinator, with the reason: what they have committed is not known."""
    unlisted: int = 0
    """As `GroupAdmin.unlisted`; 0 where groups were named."""

    def state(self, group: GroupId) -> str | None:
        return self.listed[group].state or None if group in self.listed else None

    def active(self, group: GroupId) -> bool:
        return group in self.listed and self.listed[group].state not in ("Empty", "Dead", "")

    def other_kind(self, group: GroupId) -> str | None:
        """What has a name for which nobody can commit offsets, such as a share group; None for consumer groups."""
        known = self.listed.get(group)
        return None if known is None or known.commits else f"a {known.protocol or known.kind} group"


def read_groups(cluster: ClusterAdmin, wanted: Sequence[GroupId], known: Sequence[GroupId] = ()) -> ClusterGroups:
    """The `wanted` groups, or all that the cluster lists, and those `known` from elsewhere.

    While a coordinator moves nobody lists its groups. Raises ClusterError, RefusedError without a right.
    """
    admin = GroupAdmin(cluster.client)
    groups = ClusterGroups(cluster.call(admin.listed))
    names = [name for name in wanted or {**groups.listed, **dict.fromkeys(known)} if groups.other_kind(name) is None]
    for _ in range(TRIES):
        if not names:
            break
        # What is committed meanwhile counts in both answers, or is reported as under way.
        _, wrong = cluster.call(admin.stable_offsets, names)
        groups.in_transaction |= {group for group, code in wrong.items() if code == Code.UNSTABLE_OFFSET_COMMIT}
        offsets, silent = read_offsets(cluster, names)
        groups.offsets, groups.silent = {**groups.offsets, **offsets}, {**groups.silent, **silent}
        # Whose coordinator moved in between may have committed more.
        names = [group for group in offsets if wrong.get(group) in error_codes.RETRIABLE]
    if any(group not in groups.listed for group, offsets in groups.offsets.items() if offsets):
        # By now its coordinator answers: whether it has members is not for anybody to guess.
        groups.listed = cluster.call(admin.listed)
    if not wanted:
        groups.unlisted = cluster.call(admin.unlisted)
    return groups


def read_offsets(
    cluster: ClusterAdmin, groups: Sequence[GroupId]
) -> tuple[Mapping[GroupId, GroupOffsets], Mapping[GroupId, str]]:
    """What groups have committed, and why that is not known of those without a coordinator.

    One that moves or loads is waited for. Raises ClusterError, RefusedError without a right.
    """
    if not groups:
        return {}, {}
    admin = GroupAdmin(cluster.client)
    found: dict[GroupId, GroupOffsets] = {}
    deadline = cluster.clock.monotonic() + LOADING_S
    left = list(groups)
    while True:
        news, wrong = cluster.call(admin.offsets, left)
        found.update(news)
        for group, code in wrong.items():
            if error_codes.refused(code):
                raise cluster.client.lacks("DESCRIBE", f"group {group}", "reading what it has committed")
        left = [group for group, code in wrong.items() if code in error_codes.RETRIABLE]
        if len(left) < len(wrong) or not left or cluster.clock.monotonic() >= deadline:
            break
        if not cluster.call(admin.kept):
            return found, {}
        cluster.clock.sleep(AGAIN_S)
    why = {
        group: f"offsets of group {group} could not be read: {error_codes.explain(code)}"
        for group, code in wrong.items()
    }
    for group, code in wrong.items():
        if code != Code.COORDINATOR_NOT_AVAILABLE:
            raise ClusterError(f"cluster {cluster.alias}: {why[group]}")
    return found, why
