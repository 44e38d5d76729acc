"""Writes checkpoints: the offsets of each group of the source in the remote topics, periodically.

A group at the end of a topic has nearly always committed an offset that the flow is still about to copy. So a missing
translation counts as trouble only if the same offset stays untranslated for some time.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from math import inf

from twinlog.clock import LONG_AGO
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.retry import GrowingRest
from twinlog.mirror.groups.followed_groups import FollowedGroups, accepted_offsets
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator
from twinlog.mirror.groups.stored_checkpoints import StoredCheckpoints, is_due
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import CommittedOffset, GroupOffsets
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


LATE_S = 30.0
"""After this wait in seconds an offset is late: MirrorMaker 2 copied the offset, or the offset is too old."""


class AwaitedTranslations:
    """The offsets that wait; `exact(where, offset)` returns whether the offset has an exact translation now."""

    def __init__(self, exact: Callable[[TopicPartition, SourceOffset], bool]) -> None:
        self._exact = exact
        self._since: dict[GroupId, dict[TopicPartition, tuple[SourceOffset, float]]] = {}
        self._rests: dict[GroupId, GrowingRest] = {}

    def __contains__(self, group: GroupId) -> bool:
        return group in self._since

    def update_group(self, group: GroupId, offsets: Mapping[TopicPartition, SourceOffset], now: float) -> None:
        """Set the group's committed offsets that still lack an exact translation; `now` is in monotonic seconds."""
        before = self._since.pop(group, {})
        waiting = {}
        for where, offset in offsets.items():
            first, since = before.get(where, (offset, now))
            if first > offset or (first < offset and self._exact(where, first)):
                first, since = offset, now
            waiting[where] = first, since
        rest = self._rests.pop(group, None)
        if waiting:
            self._since[group] = waiting
            newest = max(since for _, since in waiting.values())
            self._rests[group] = rest = GrowingRest(LOOK_AGAIN_S) if rest is None or newest == now else rest
            rest.extend(now)

    def due(self, now: float) -> set[GroupId]:
        """Return the groups to translate again: the longer a group waits, the rarer."""
        return {group for group, rest in self._rests.items() if not rest.is_on(now)}

    def since(self) -> dict[GroupId, float]:
        """Return since when the newest offset of each group waits."""
        return {group: max(since for _, since in waiting.values()) for group, waiting in self._since.items()}

    def retain_groups(self, groups: Collection[GroupId]) -> None:
        """Forget all other groups."""
        for group in self._since.keys() - groups:
            del self._since[group], self._rests[group]

    def late(self, now: float) -> dict[GroupId, list[TopicPartition]]:
        """Return the groups with partitions whose offset has waited for longer than `LATE_S`."""
        found = {
            group: [where for where, (_, since) in waiting.items() if now - since > LATE_S]
            for group, waiting in self._since.items()
        }
        return {group: partitions for group, partitions in found.items() if partitions}


LOOK_AGAIN_S = 30.0
"""The seconds between two translations of all offsets: a remote topic may be recreated, or the checkpoints deleted."""

LOST_S = 60.0
"""The seconds for which a translation may be missing before the log says so."""

LOGGED = inf
WRONG_S = 5.0
"""The seconds for which a coordinator may refuse a group's offsets before a report: it may have to load them."""

AGAIN_S = 1.0
"""The seconds until the next look at a group whose commits are missing, unreadable or inexactly translated.

Each further wait is as long as the whole wait before, until the next turn looks at all groups.
"""


class CheckpointWriter:
    """The checkpoints of a flow (Kafka class MirrorCheckpointTask).

    `write_checkpoints` looks once at all groups. Between two turns `try_again` looks for new groups. After `again_s`
    seconds `try_again` also looks at groups whose offsets may appear or become translatable at any moment.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        translator: GroupOffsetTranslator,
        wrote: Callable[[Collection[tuple[GroupId, TopicPartition]], float], None] = lambda written, latency_ms: None,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`wrote(written, latency_ms)` is called after the append of checkpoints; `written` are groups and partitions.

        `latency_ms` are the milliseconds since the checkpoints were made; the partitions are remote partitions.
        `moved()` is called when `positions` changes.
        """
        self._settings = settings
        self._source = source
        self._target = target
        self._translator = translator
        self._wrote = wrote
        self._moved = moved
        self._put_off = False
        """Whether a change of `positions` waits for a translation that may be exact in a moment."""
        self.stored = StoredCheckpoints(settings, target)
        """The checkpoints in their topic."""
        self._groups = FollowedGroups(settings, source, translator.accepts, self._find_hidden)
        self._lock = threading.Lock()
        self._standing: dict[GroupId, GroupOffsets] = {}
        """The target position of each group.

        A translation counts if it moves the checkpoint forward, or back for a reason.
        """
        self._seen: dict[GroupId, GroupOffsets] = {}
        self._awaited = AwaitedTranslations(self._is_exact)
        self._lost: dict[GroupId, tuple[TopicPartition, ...]] = {}
        """The partitions whose offset is still untranslated after the log has said so."""
        self._inexact: Mapping[GroupId, Mapping[TopicPartition, SourceOffset]] = {}
        self._untranslated: dict[tuple[GroupId, TopicName], float] = {}
        self._wrong: dict[GroupId, tuple[float, int]] = {}
        """The groups with unreadable offsets: the first moment of the failure, and the error code."""
        self._look_at = LONG_AGO
        self._followed: tuple[GroupId, ...] | None = None

    @property
    def followed(self) -> Sequence[GroupId] | None:
        """The groups with committed offsets in translated topics; None before the first look.

        The property returns the same object until the groups change.
        """
        return self._followed

    @property
    def inexact(self) -> Mapping[GroupId, Mapping[TopicPartition, SourceOffset]]:
        """The committed offsets whose exact translation has been missing for `LATE_S`, by group and source partition.

        Any thread may read them.
        """
        return self._inexact

    def committed(self, group: GroupId) -> GroupOffsets:
        """Return a group's committed offsets on the source at the last look; any thread may call this method."""
        return self._seen.get(group, {})

    def left_to_switchover(self) -> dict[GroupId, GroupOffsets]:
        """Return the offsets that groups have committed in copies from the target which the topic filter rejects.

        They are of the last look, and get no checkpoint. Any thread may call this method. Raises ClusterError.
        """
        leaves = cache(self._translator.left_to_switchover)
        found = {
            group: accepted_offsets(offsets, leaves) for group, offsets in self._groups.offsets_everywhere().items()
        }
        return {group: offsets for group, offsets in found.items() if offsets}

    @property
    def active_on_source(self) -> frozenset[GroupId]:
        """The groups that had members on the source at the last look for new groups."""
        return self._groups.active

    def positions(self) -> dict[GroupId, GroupOffsets]:
        """Return the target position of each followed group by remote partition; any thread may call this method.

        A position comes from a present translation. A checkpoint that was only read from the topic, or that lies beyond
        the present translation, is left out: the remote topic may be recreated since.
        """
        with self._lock:
            return dict(self._standing)

    def write_checkpoints(self) -> str | None:
        """Write the checkpoints that are due; returns the failures of single groups.

        Until a group commits again the method only reads offsets, and rarely looks at offsets that wait for an exact
        translation. Raises ClusterError.
        """
        return self._look_at_all(self._awaited.due(self._target.clock.monotonic()))

    def _look_at_all(self, waiting: Collection[GroupId] | None) -> str | None:
        """As `write_checkpoints`; `waiting` is as in `_follow`."""
        look = self._target.clock.monotonic() >= self._look_at
        created = self.stored.prepare(look=look)
        offsets, wrong = self._groups.read()
        self._note_wrong(wrong, wrong)
        self._follow(offsets, look or created, waiting)
        self._forget(offsets)
        if look:
            self._look_at = self._target.clock.monotonic() + LOOK_AGAIN_S
            self._warn_of_untranslated()
        return self._report()

    def write_last_checkpoints(self) -> str | None:
        """As `write_checkpoints`, for the end of the flow: also for groups that nobody has looked for yet."""
        self._groups.find_new_groups()
        return self._look_at_all(None)

    def again_s(self) -> float | None:
        """Return the seconds until `try_again` has work; None if the next turn is soon enough."""
        now = self._target.clock.monotonic()
        since = max(self._waiting(now).values(), default=None)
        again_at = inf if since is None else now + max(AGAIN_S, now - since)
        at = min(again_at, self._groups.look_at)
        return None if at == inf else max(0.0, at - now)

    def try_again(self) -> str | None:
        """Look for new groups if the look is due, and look at waiting groups; returns the failures of single groups.

        Raises ClusterError.
        """
        now = self._target.clock.monotonic()
        waiting = self._waiting(now)
        asked = set(self._groups.find_new_groups()) if now >= self._groups.look_at else set[GroupId]()
        asked |= {group for group in waiting if group in self._wrong or group in self._groups.empty}
        offsets: Mapping[GroupId, GroupOffsets] = self._seen
        if asked:
            offsets, wrong = self._groups.read(asked)
            self._note_wrong(self._wrong.keys() - asked | wrong.keys(), wrong)
        self._follow(offsets, waiting=waiting)
        return self._report()

    def _waiting(self, now: float) -> dict[GroupId, float]:
        """Return the groups to look at before the next turn, and since when each group waits.

        A group that has waited for longer than the time between two turns is left out.
        """
        longest_s = self._settings.emit_checkpoints_interval_s or 0.0
        wrong = {group: since for group, (since, _) in self._wrong.items()}
        found = {**self._groups.empty, **self._awaited.since(), **wrong}
        return {group: since for group, since in found.items() if now - since < longest_s}

    def _follow(
        self, offsets: Mapping[GroupId, GroupOffsets], every: bool = False, waiting: Collection[GroupId] | None = None
    ) -> None:
        """Translate the new offsets of all groups, and write the checkpoints that are due.

        Offsets that wait for their translation are new as well: the offsets of the groups `waiting`, by default of all
        groups. With `every` all offsets are new.
        """
        followed = tuple(sorted(offsets))
        if followed != self._followed:
            self._followed = followed
        changed = [
            group
            for group, committed in offsets.items()
            if every
            or self._seen.get(group) is not committed
            or (group in self._awaited and (waiting is None or group in waiting))
        ]
        moved = False
        if changed:
            self._translator.refresh({where.topic for group in changed for where in offsets[group]})
            found = {group: self._translate(group, offsets[group]) for group in changed}
            self._write([checkpoint for due, _ in found.values() for checkpoint in due])
            with self._lock:
                moved = any(self._standing.get(group, {}) != standing for group, (_, standing) in found.items())
                self._standing.update((group, standing) for group, (_, standing) in found.items())
        self._seen = dict(offsets)
        self._awaited.retain_groups(offsets.keys())
        late = self._awaited.late(self._target.clock.monotonic())
        lost = self._lost = {group: partitions for group, partitions in self._lost.items() if group in offsets}
        self._inexact = {
            group: {
                where: SourceOffset(offsets[group][where].offset)
                for where in (*late.get(group, ()), *lost.get(group, ()))
            }
            for group in late.keys() | lost.keys()
        }
        with self._lock:
            for group in self._standing.keys() - offsets.keys():
                del self._standing[group]
        if moved or self._put_off:
            # The copy of the last committed records is often a moment behind: the pause spares groups a second move.
            self._put_off = not self._put_off and self._looks_soon() and any(one in self._awaited for one in changed)
            if not self._put_off:
                self._moved()

    def _looks_soon(self) -> bool:
        again_s, every_s = self.again_s(), self._settings.emit_checkpoints_interval_s
        return min(inf if again_s is None else again_s, inf if every_s is None else every_s) <= AGAIN_S

    def _find_hidden(self) -> HiddenOffsets | None:
        self._translator.refresh(())
        return self._translator.find_hidden()

    def _forget(self, followed: Mapping[GroupId, GroupOffsets]) -> None:
        """Keep little of absent groups, and only for a limited time: new groups appear as long as the flow runs."""
        self._untranslated = {key: since for key, since in self._untranslated.items() if key[0] in followed}
        self.stored.retain_groups(followed)

    def _translate(self, group: GroupId, offsets: GroupOffsets) -> tuple[list[Checkpoint], GroupOffsets]:
        """Return the checkpoints of a group that are due, and the group's target positions."""
        before = self.stored.last(group)
        due: list[Checkpoint] = []
        standing: GroupOffsets = {}
        inexact: dict[TopicPartition, SourceOffset] = {}
        lost: list[TopicPartition] = []
        now = self._target.clock.monotonic()
        for where, committed in offsets.items():
            upstream = SourceOffset(committed.offset)
            translated = self._translator.translate_offset(where, upstream)
            if translated is None:
                if self._was_translated(before, where, upstream):
                    continue
                # A partition whose loss was logged is looked for again from time to time only.
                if self._untranslated.setdefault((group, where.topic), now) == LOGGED:
                    lost.append(where)
                else:
                    inexact[where] = upstream
                continue
            if not translated.exact:
                inexact[where] = upstream
            self._untranslated.pop((group, where.topic), None)
            new = Checkpoint(group, *translated.partition, upstream, translated.offset, committed.metadata)
            last = before.get(new.remote)
            if is_due(new, last, exact=translated.exact or translated.recreated):
                due.append(new)
            elif last is not None and last.downstream > new.downstream:
                continue
            standing[new.remote] = CommittedOffset(new.downstream, new.metadata)
        self._awaited.update_group(group, inexact, now)
        self._lost.pop(group, None)
        if lost:
            self._lost[group] = tuple(lost)
        return due, standing

    def _was_translated(
        self, last: Mapping[TopicPartition, Checkpoint], where: TopicPartition, upstream: SourceOffset
    ) -> bool:
        """Whether there is a checkpoint of this very offset: the source has deleted its record since, and with the
        record goes the map."""
        remote = self._translator.remote(where)
        known = None if remote is None else last.get(remote)
        return known is not None and known.upstream == upstream

    def _is_exact(self, where: TopicPartition, offset: SourceOffset) -> bool:
        found = self._translator.translate_offset(where, offset)
        return found is not None and found.exact

    def _write(self, due: list[Checkpoint]) -> None:
        if not due:
            return
        begun = self._target.clock.monotonic()
        self.stored.append(due)
        latency_ms = (self._target.clock.monotonic() - begun) * 1000
        self._wrote([(one.group, one.remote) for one in due], latency_ms)

    def _warn_of_untranslated(self) -> None:
        """Warn once of a group whose checkpoint in a topic is missing: it would begin on the target as a new group."""
        lost: dict[TopicName, list[str]] = defaultdict(list)
        for (group, topic), since in self._untranslated.items():
            if self._target.clock.monotonic() - since > LOST_S:
                self._untranslated[group, topic] = LOGGED
                lost[topic].append(group)
        for topic, groups in lost.items():
            log.warning(
                "TW-GROUP-02: %s: no checkpoints in topic %s for group %s: it is not copied, or the group has "
                "committed offsets older than any that can be translated",
                self._settings.name,
                topic,
                listed(groups),
            )

    def _note_wrong(self, all_of_them: Collection[GroupId], codes: Mapping[GroupId, int]) -> None:
        """Note the groups with unreadable offsets, and the error codes of the groups in the present request."""
        now = self._target.clock.monotonic()
        before = self._wrong
        self._wrong = {
            group: (before[group][0] if group in before else now, codes.get(group, before.get(group, (now, 0))[1]))
            for group in all_of_them
        }

    def _report(self) -> str | None:
        now = self._target.clock.monotonic()
        by_code: dict[int, list[str]] = defaultdict(list)
        for group, (since, code) in self._wrong.items():
            if now - since > WRONG_S:
                by_code[code].append(group)
        if not by_code:
            return None
        code, groups = min(by_code.items())
        if error_codes.refused(code):
            return str(self._source.client.lacks("DESCRIBE", f"group {listed(groups)}", "reading its offsets"))
        return f"group {listed(groups)} on {self._settings.source}: {error_codes.explain(code)}"
