"""Commits translated offsets for groups on the target, so that a group that moves there continues at its position.

Kafka class MirrorCheckpointTask (syncGroupOffset) looks at the target's groups once per interval and commits an
interval later. A group that became active meanwhile may be set back (KAFKA-19794), and a refused commit is forgotten.
Here a group is checked right before the commit, offsets only move forward, and each partition's result counts.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import NamedTuple

from twinlog.clock import LONG_AGO
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import LATEST
from twinlog.kafka.retry import GROUP_COMMIT, GrowingRest
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, TargetOffset, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

LOOK_AGAIN_S = 30.0
"""The seconds between two checks of unchanged groups: the target may have expired their offsets."""

HANDS_OFF_S = 60.0
"""The seconds for which a group is left alone after a consumer outside the group protocol committed on the target."""

IN_USE_S = 10.0
"""The longest time in seconds between two looks at a group that is in use on the target."""

LOADING_S = 5.0
"""The seconds for which a coordinator may be moving or loading before a report."""

_ACTIVE = frozenset(
    {Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS, Code.FENCED_INSTANCE_ID}
)
"""The errors that show that the group has members."""


class _Failure(NamedTuple):
    """Commits of a group that fail: the first failure, the moment of the next try, the wait in seconds, the reason.

    Moments are monotonic seconds. `since` is long ago for a failure that needs an operator.
    """

    since: float
    again_at: float
    wait_s: float
    text: str


class GroupSync:
    """The groups of a flow on its target; `commit_offsets` commits due offsets, `try_again` repeats failed commits.

    A turn follows at once when `positions` changes. Once per interval a turn also looks at groups with failed commits,
    and after a `GrowingRest` at groups that had members.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: ClusterAdmin,
        positions: Callable[[], Mapping[GroupId, GroupOffsets]],
        earlier: Callable[[GroupId], Mapping[TopicPartition, TargetOffset]],
    ) -> None:
        """`positions` returns each group's translated offsets by remote partition.

        `earlier` returns the target offsets of a group's checkpoints that the process before this process wrote.
        """
        self._settings = settings
        self._target = target
        self._positions = positions
        self._earlier = earlier
        self._admin = GroupAdmin(target.client)
        self._done: dict[GroupId, GroupOffsets] = defaultdict(dict)
        """The positions that the target's groups had reached at the last check."""
        self._seen: dict[GroupId, dict[TopicPartition, CommittedOffset | None]] = {}
        """The committed offsets of each group on the target after the last look, including this flow's commits.

        Only partitions of this flow count: another flow may commit for the same group in its own partitions.
        """
        self._tried: dict[GroupId, GroupOffsets] = {}
        """The last commit of each group, as long as its result is unknown."""
        self._hands_off: dict[GroupId, float] = {}
        self._failed: dict[GroupId, _Failure] = {}
        self._retried: dict[GroupId, _Failure] = {}
        """The failures that this turn tries again."""
        self._in_use: dict[GroupId, GrowingRest] = {}
        """The groups that are in use on the target, each with the rest before the next look at it."""
        self._look_at = LONG_AGO
        self.active: frozenset[GroupId] = frozenset()
        """The consumer groups that had members on the target at the last look."""
        self.ahead: Mapping[GroupId, frozenset[TopicPartition]] = {}
        """The groups without members on the target, with the remote partitions in which their offset was after its
        translation at the last look.

        As consumers of a moved group are often absent for a moment, only the journals of switchovers tell moved groups
        from groups that would skip records.
        """

    def commit_offsets(self) -> str | None:
        """Commit due offsets for empty groups; returns the failures.

        Requests are sent only for new positions. Raises ClusterError when the target is silent.
        """
        return self._commit(last=False)

    def commit_last_offsets(self) -> str | None:
        """As `commit_offsets`, for the end of the flow: without rests after failures and after looks at groups in use.

        Each group is checked right before its commit, as ever.
        """
        return self._commit(last=True)

    def _commit(self, *, last: bool) -> str | None:
        now = self._target.clock.monotonic()
        positions = self._positions()
        if now >= self._look_at or last:
            self._done.clear()
            self._look_at = now + LOOK_AGAIN_S
        self._forget(positions.keys(), now)
        self._retried = {
            group: failure
            for group, failure in self._failed.items()
            if last or failure.again_at <= now or failure.since > -inf
        }
        for group in self._retried:
            del self._failed[group]
        due = {
            group: new
            for group, all_of_it in positions.items()
            if group not in self._failed
            and (last or not (group in self._in_use and self._in_use[group].is_on(now)))
            and (new := {where: what for where, what in all_of_it.items() if self._done[group].get(where) != what})
        }
        if due:
            self._sync(due, positions)
        return self._report()

    def again_s(self) -> float | None:
        """Return the seconds until the next try of a refused commit; None if all commits were accepted."""
        again_at = min((failure.again_at for failure in self._failed.values()), default=None)
        return None if again_at is None else max(0.0, again_at - self._target.clock.monotonic())

    def try_again(self) -> str | None:
        """As `commit_offsets`: requests are sent only for due offsets, and after the wait of a failed commit."""
        return self.commit_offsets()

    def _forget(self, followed: Collection[GroupId], now: float) -> None:
        """Forget unfollowed groups: new groups appear as long as the flow runs."""
        self._failed = {group: failure for group, failure in self._failed.items() if group in followed}
        for known in (self._seen, self._tried, self._done):
            for group in known.keys() - followed:
                del known[group]
        self._in_use = {group: rest for group, rest in self._in_use.items() if group in followed}
        self.ahead = {group: remotes for group, remotes in self.ahead.items() if group in followed}
        self._hands_off = {group: until for group, until in self._hands_off.items() if until > now}

    def _sync(self, due: Mapping[GroupId, GroupOffsets], positions: Mapping[GroupId, GroupOffsets]) -> None:
        present, wrong = self._target.call(self._admin.offsets, sorted(due))
        for group, code in wrong.items():
            self._fail(group, code)
        groups = self._target.call(self._admin.listed)
        self.active = frozenset(name for name, group in groups.items() if group.commits and not group.empty)
        commits: dict[GroupId, GroupOffsets] = {}
        ahead_there: dict[GroupId, frozenset[TopicPartition]] = {}
        for group, offsets in present.items():
            now = {where: offsets.get(where) for where in positions[group]}
            moved = self._was_committed(group, now) or self._is_foreign(group, now, positions[group])
            self._seen[group] = now
            if not self._is_idle(group, groups.get(group), moved):
                continue
            known = {where: what.offset for where, what in now.items() if what is not None}
            if further := {where for where, offset in known.items() if offset > positions[group][where].offset}:
                ahead_there[group] = frozenset(further)
            new = ahead(due[group], offsets)
            if new:
                commits[group] = new
            else:
                self._reached(group, due[group], set())
        self.ahead = {group: one for group, one in self.ahead.items() if group not in present} | ahead_there
        commits = self._within_logs(commits, present)
        if not commits:
            return
        # The group must be empty right before the commit; from members that join later the broker refuses it.
        groups = self._target.call(self._admin.listed)
        commits = {
            group: offsets for group, offsets in commits.items() if self._is_idle(group, groups.get(group), False)
        }
        self._tried.update(commits)
        refused = self._target.call(self._admin.commit, commits)
        for group, offsets in commits.items():
            codes = refused.get(group, {})
            taken = {where: what for where, what in offsets.items() if where not in codes}
            self._seen[group] = {**self._seen[group], **taken}
            del self._tried[group]
            self._reached(group, due[group], set(codes))
            for where, code in codes.items():
                self._fail(group, code, str(where.topic))

    def _was_committed(self, group: GroupId, now: Mapping[TopicPartition, CommittedOffset | None]) -> bool:
        """Whether another program has committed since the last look at the group."""
        tried = self._tried.get(group, {})
        return any(
            now[where] not in (known, tried.get(where, known))
            for where, known in self._seen.get(group, {}).items()
            if where in now
        )

    def _is_foreign(
        self, group: GroupId, now: Mapping[TopicPartition, CommittedOffset | None], positions: GroupOffsets
    ) -> bool:
        """Whether the first look at a partition finds an offset that another program committed, as far as is known.

        The process before this process committed the offsets of its last checkpoints, unless it crashed in between.
        Other offsets that the group's position would replace count as just committed: a consumer that is active will
        commit again soon, and the offsets of all other groups follow after `HANDS_OFF_S`.
        """
        seen, earlier = self._seen.get(group, {}), self._earlier(group)
        return any(
            found is not None
            and where not in seen
            and found.offset != earlier.get(where)
            and found.offset < positions[where].offset
            for where, found in now.items()
        )

    def _within_logs(
        self, commits: Mapping[GroupId, GroupOffsets], present: Mapping[GroupId, GroupOffsets]
    ) -> dict[GroupId, GroupOffsets]:
        """Leave out first offsets beyond the end of their remote partition; the next look comes after `LOOK_AGAIN_S`.

        With a topic Kafka deletes the offsets of its groups. If the topic was recreated, and nothing was copied since,
        the translation is still of the earlier topic; brokers accept any offset.
        """
        first = {where for group, offsets in commits.items() for where in offsets if where not in present[group]}
        if not first:
            return dict(commits)
        client = self._target.client
        self._target.call(client.refresh, sorted({where.topic for where in first}))
        ends = self._target.call(client.list_offsets, sorted(first), LATEST)
        found: dict[GroupId, GroupOffsets] = {}
        for group, offsets in commits.items():
            beyond = {
                where: what
                for where, what in offsets.items()
                if where in first and where in ends and what.offset > ends[where]
            }
            if beyond:
                log.info(
                    "%s: group %s is left alone on %s in %s: its position there is of an earlier topic of this name",
                    *(*self._names(group), listed({where.topic for where in beyond})),
                )
                self._reached(group, beyond, set())
            if kept := {where: what for where, what in offsets.items() if where not in beyond}:
                found[group] = kept
        return found

    def _reached(self, group: GroupId, positions: GroupOffsets, failed: Collection[TopicPartition]) -> None:
        self._done[group].update({where: what for where, what in positions.items() if where not in failed})

    def _is_idle(self, group: GroupId, there: GroupListing | None, moved: bool) -> bool:
        """Return whether offsets may be committed for a group: it is empty or missing.

        A consumer that assigns partitions to itself may still use an empty group and commit for it. So a group whose
        offsets `moved` by a foreign commit is left alone for a while.
        """
        now = self._target.clock.monotonic()
        if there is None:
            self._in_use.pop(group, None)
            return True
        if moved and not there.protocol:
            self._hands_off[group] = now + HANDS_OFF_S
        active = in_use(there) or self._hands_off.get(group, LONG_AGO) > now
        if active:
            if group not in self._in_use:
                self._in_use[group] = GrowingRest(IN_USE_S)
                log.info("%s: group %s is in use on %s, its offsets there are left alone", *self._names(group))
            self._in_use[group].extend(now)
        elif self._in_use.pop(group, None) is not None:
            log.info("%s: group %s is idle on %s now, its offsets follow the source", *self._names(group))
        return not active

    def _names(self, group: GroupId) -> tuple[str, str, str]:
        return self._settings.name, group, self._settings.target

    def _fail(self, group: GroupId, code: int, topic: str = "") -> None:
        """Record the reason, and the moment of the next try."""
        if code in _ACTIVE:
            # The next turn looks at the group again.
            return
        if group in self._failed:
            # The failure is from another partition of the same commit.
            return
        now = self._target.clock.monotonic()
        before = self._retried.get(group)
        longest_s = max(GROUP_COMMIT.longest_s, self._settings.sync_group_offsets_interval_s or 0.0)
        wait_s = GROUP_COMMIT.first_s if before is None else min(2 * before.wait_s, longest_s)
        if code in error_codes.RETRIABLE and code != Code.UNKNOWN_TOPIC_OR_PARTITION:
            since = now if before is None else before.since
            self._failed[group] = _Failure(since, now + wait_s, wait_s, f"group {group}: {error_codes.explain(code)}")
        else:
            self._failed[group] = _Failure(-inf, now + wait_s, wait_s, self._refusal(group, code, topic))

    def _refusal(self, group: GroupId, code: int, topic: str) -> str:
        client = self._target.client
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            return str(client.lacks("READ", f"topic {topic}", f"committing offsets of group {group}"))
        if error_codes.refused(code):
            return str(client.lacks("READ", f"group {group}", "committing its offsets"))
        if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return f"group {group}: topic {topic} is not on {self._settings.target}"
        if code == Code.OFFSET_METADATA_TOO_LARGE:
            return f"group {group}: its metadata is longer than offset.metadata.max.bytes of {self._settings.target}"
        return f"group {group}: {error_codes.explain(code)}"

    def _report(self) -> str | None:
        now = self._target.clock.monotonic()
        texts = {failure.text for failure in self._failed.values() if now - failure.since > LOADING_S}
        return listed(texts) if texts else None


def in_use(there: GroupListing) -> bool:
    """Whether a group of the target has members, or belongs to another program: its offsets are then left alone."""
    return not there.commits or not there.empty


def ahead(positions: GroupOffsets, present: GroupOffsets) -> GroupOffsets:
    """The offsets to commit: of partitions in which the target's group lacks an offset or has an earlier offset."""
    return {
        where: what for where, what in positions.items() if where not in present or present[where].offset < what.offset
    }
