"""The groups of the source that a flow follows, and the reasons to leave out groups."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from twinlog.clock import LONG_AGO
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.mirror.topology.filters import DefaultGroupFilter
from twinlog.mirror.topology.plugins import group_filter_of
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import GroupListing, GroupOffsets
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TopicName
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)

_TOPICS, _TOPICS_EXCLUDE = (key_of(FlowSettings, name) for name in ("topics", "topics_exclude"))
WITHOUT_TOPIC = f"it has committed no offset in a topic that {_TOPICS} and {_TOPICS_EXCLUDE} let through"
"""The reason to leave out a group that the filter lets through."""

HIDDEN_LOOK_S = 300.0
"""The time in seconds between two looks at hidden topics for groups that are left out."""

LOOK_S = 30.0
"""The longest time in seconds for which a new group stays unknown, even if `refresh.groups.interval.seconds` is longer.

A request to each broker lists all groups.
"""


def why_without(hidden: HiddenOffsets | None) -> str:
    """The reason to leave out a group without a visible offset in the flow's topics; `hidden` are further topics."""
    if hidden is None:
        return WITHOUT_TOPIC
    return f"its offsets in topic {listed(hidden.topics)}, if it has any, are hidden: {hidden.right}"


def choose_groups(
    filter_: DefaultGroupFilter, groups: Mapping[GroupId, GroupListing]
) -> tuple[list[GroupId], dict[GroupId, str]]:
    """The groups that a flow follows, and the reason for each left-out group; groups of copiers are in neither."""
    refusals = {name: group_refusal(filter_, group) for name, group in groups.items()}
    followed = sorted(name for name, reason in refusals.items() if reason is None)
    return followed, {name: reason for name, reason in refusals.items() if reason and not groups[name].of_copiers}


def accepted_offsets(offsets: GroupOffsets, accepts: Callable[[TopicName], bool]) -> GroupOffsets:
    """Return the offsets that a group has committed in topics that `accepts` lets through."""
    return {where: what for where, what in offsets.items() if accepts(where.topic)}


def group_refusal(filter_: DefaultGroupFilter, group: GroupListing) -> str | None:
    """Return the reason why a flow leaves out a group; None if the flow follows the group after its first commit."""
    if not group.commits:
        return f"its kind is {group.protocol or group.kind}, and the flow follows consumer groups"
    return filter_.refusal(group.name)


class FollowedGroups:
    """The groups that the filter lets through, and their committed offsets in topics that `accepts` lets through."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        accepts: Callable[[TopicName], bool],
        find_hidden: Callable[[], HiddenOffsets | None] = lambda: None,
    ) -> None:
        """`find_hidden` returns the topics whose offsets brokers leave out of their answers."""
        self._find_hidden = find_hidden
        self._hidden: HiddenOffsets | None = None
        self._hidden_at = LONG_AGO
        """When hidden topics are due for the next look (monotonic seconds)."""
        self._settings = settings
        self._source = source
        self._accepts = accepts
        self._filter = group_filter_of(settings)
        self._admin = GroupAdmin(source.client)
        self._groups: list[GroupId] = []
        self._unlisted: frozenset[GroupId] = frozenset()
        """The groups that were missing at the last look: deleted, or their coordinator just moved."""
        self._look_at = LONG_AGO
        """When the next look for new groups is due (monotonic seconds)."""
        self._empty: dict[GroupId, float] = {}
        """The groups that have still to commit, with the moment of their discovery."""
        self.active: frozenset[GroupId] = frozenset()
        """The groups that had members on the source at the last look."""
        self._offsets: dict[GroupId, GroupOffsets] = {}
        self._raw: dict[GroupId, GroupOffsets] = {}
        self._reasons: dict[GroupId, str] = {}
        self._logged = LogOnce(source.clock)

    @property
    def look_at(self) -> float:
        """When the next look for new groups is due (monotonic seconds); infinite if looks are turned off."""
        return self._look_at

    @property
    def empty(self) -> Mapping[GroupId, float]:
        """The groups that have still to commit, with the moment of each group's discovery (monotonic seconds)."""
        return self._empty

    def offsets_everywhere(self) -> dict[GroupId, GroupOffsets]:
        """Return the committed offsets of the filter's groups in all topics at the last look; for any thread."""
        return self._raw.copy()

    def find_new_groups(self) -> list[GroupId]:
        """Look for new groups, with a request to each broker; returns the new groups. Raises ClusterError."""
        before = set(self._groups)
        now = self._source.clock.monotonic()
        self._groups, reasons = self._find()
        interval = self._settings.refresh_groups_interval_s
        self._look_at = float("inf") if interval is None else now + min(interval, LOOK_S)
        known = set(self._groups)
        self._empty = {group: since for group, since in self._empty.items() if group in known}
        self._log_reasons(reasons)
        return sorted(known - before)

    def read(self, groups: Collection[GroupId] | None = None) -> tuple[dict[GroupId, GroupOffsets], dict[GroupId, int]]:
        """Return the committed offsets of all groups, and the error codes of groups with unreadable offsets.

        The method first looks for new groups if the look is due, or is due before half of the time until the next call
        is over. With `groups` it only reads the offsets of these groups. The value of an unchanged group is the same
        object as before. Raises ClusterError.
        """
        now = self._source.clock.monotonic()
        if groups is not None:
            found, wrong = self._source.call(self._admin.some_offsets, sorted(set(groups).intersection(self._groups)))
        else:
            if now + (self._settings.emit_checkpoints_interval_s or 0.0) / 2 >= self._look_at:
                self.find_new_groups()
            found, wrong = self._source.call(self._admin.offsets, self._groups)
        before = self._offsets
        kept = wrong if groups is None else before.keys() - found.keys()
        self._offsets = {group: before[group] for group in kept if group in before}
        without: list[GroupId] = []
        for group, offsets in found.items():
            if offsets is not self._raw.get(group):
                self._raw[group] = offsets
                accepted = accepted_offsets(offsets, self._accepts)
            else:
                accepted = before.get(group, {})
            if accepted:
                self._offsets[group] = before[group] if before.get(group) == accepted else accepted
            elif group not in self._unlisted:
                without.append(group)
            if offsets or group in self._unlisted:
                self._empty.pop(group, None)
            else:
                self._empty.setdefault(group, now)
        self._log_reasons(self._why_without(without, before))
        return self._offsets, wrong

    def _why_without(self, groups: Sequence[GroupId], before: Mapping[GroupId, GroupOffsets]) -> dict[GroupId, str]:
        """The reason to leave out groups that lack offsets in all visible topics of the flow; `before` had offsets.

        A look at hidden topics costs a list of all topics: new groups, and lost offsets, are worth it.
        """
        now = self._source.clock.monotonic()
        if now >= self._hidden_at or any(group in before or group not in self._reasons for group in groups):
            self._hidden = self._find_hidden() if groups else None
            self._hidden_at = now + HIDDEN_LOOK_S if groups else LONG_AGO
        return dict.fromkeys(groups, why_without(self._hidden))

    def _find(self) -> tuple[list[GroupId], dict[GroupId, str]]:
        groups = self._source.call(self._admin.listed)
        if not groups and self._logged.is_new("no group"):
            log.info(
                "%s: no consumer group can be seen on %s yet; with ACLs, groups need DESCRIBE",
                self._settings.name,
                self._settings.source,
            )
        self.active = frozenset(name for name, group in groups.items() if not group.empty)
        followed, reasons = choose_groups(self._filter, groups)
        # A coordinator that moves, or lacks a leader, lists no group: its known groups are asked for until it answers.
        self._unlisted = frozenset(name for name in self._offsets if name not in groups)
        known = groups.keys() | self._unlisted
        self._raw = {name: offsets for name, offsets in self._raw.items() if name in known}
        self._reasons = {name: reason for name, reason in self._reasons.items() if name in known}
        return sorted([*followed, *self._unlisted]), reasons

    def _log_reasons(self, reasons: dict[GroupId, str]) -> None:
        """Log once for each group the reason for its missing checkpoints, and again when the reason changes."""
        flow, unreported = self._settings.name, defaultdict[str, list[str]](list)
        for group, reason in reasons.items():
            if self._reasons.get(group) != reason:
                self._reasons[group] = reason
                unreported[reason].append(group)
        for reason, groups in unreported.items():
            if self._hidden is not None and reason == why_without(self._hidden):
                log.warning("TW-RIGHT-02: %s: no checkpoints for group %s: %s", flow, listed(groups), reason)
            else:
                log.info("%s: no checkpoints for group %s: %s", flow, listed(groups), reason)
