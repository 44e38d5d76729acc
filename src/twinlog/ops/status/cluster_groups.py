"""Reads the groups of a cluster; an unreadable group is reported as unknown rather than as absent."""

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
"""The number of times that a group is asked for offsets in transactions while its coordinator moves each time."""


@dataclass(slots=True)
class ClusterGroups:
    """The groups of a cluster: their listings, and their committed offsets."""

    listed: Mapping[GroupId, GroupListing] = field(default_factory=dict)
    offsets: Mapping[GroupId, GroupOffsets] = field(default_factory=dict)
    in_transaction: frozenset[GroupId] = frozenset()
    """Groups with further commits in open transactions."""
    silent: Mapping[GroupId, str] = field(default_factory=dict)
    """Groups that lack a coordinator, with the reason: their committed offsets are unknown."""
    unlisted: int = 0
    """As `GroupAdmin.unlisted`; 0 if groups were named."""

    def state(self, group: GroupId) -> str | None:
        return self.listed[group].state or None if group in self.listed else None

    def active(self, group: GroupId) -> bool:
        return group in self.listed and self.listed[group].state not in ("Empty", "Dead", "")

    def other_kind(self, group: GroupId) -> str | None:
        """The kind of a group that is unable to commit offsets, for example a share group; None for consumer groups."""
        known = self.listed.get(group)
        return None if known is None or known.commits else f"a {known.protocol or known.kind} group"


def read_groups(cluster: ClusterAdmin, wanted: Sequence[GroupId], known: Sequence[GroupId] = ()) -> ClusterGroups:
    """Return the `wanted` groups, or all groups that the cluster lists, and the groups `known` from elsewhere.

    While a coordinator moves, its groups are missing from every list. Raises ClusterError, and RefusedError if a right
    is missing.
    """
    admin = GroupAdmin(cluster.client)
    groups = ClusterGroups(cluster.call(admin.listed))
    names = [name for name in wanted or {**groups.listed, **dict.fromkeys(known)} if groups.other_kind(name) is None]
    for _ in range(TRIES):
        if not names:
            break
        # Offsets committed in between count in both answers, or are reported as pending.
        _, wrong = cluster.call(admin.stable_offsets, names)
        groups.in_transaction |= {group for group, code in wrong.items() if code == Code.UNSTABLE_OFFSET_COMMIT}
        offsets, silent = read_offsets(cluster, names)
        groups.offsets, groups.silent = {**groups.offsets, **offsets}, {**groups.silent, **silent}
        # Groups whose coordinator moved in between may have committed more.
        names = [group for group in offsets if wrong.get(group) in error_codes.RETRIABLE]
    if any(group not in groups.listed for group, offsets in groups.offsets.items() if offsets):
        # By now its coordinator answers and tells whether the group has members.
        groups.listed = cluster.call(admin.listed)
    if not wanted:
        groups.unlisted = cluster.call(admin.unlisted)
    return groups


def read_offsets(
    cluster: ClusterAdmin, groups: Sequence[GroupId]
) -> tuple[Mapping[GroupId, GroupOffsets], Mapping[GroupId, str]]:
    """Return the committed offsets of groups, and the reason for each group whose coordinator is missing.

    Waits while a coordinator moves or loads. Raises ClusterError, and RefusedError if a right is missing.
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
