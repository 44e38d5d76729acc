"""Writes checkpoints: again and again where each group of the source would go on in the remote topics."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Mapping

from twinlog.checkpoint.bearings import Bearings
from twinlog.checkpoint.checkpoints import Checkpoint, decode_checkpoint, decode_checkpoint_key
from twinlog.checkpoint.emission import is_due
from twinlog.checkpoint.following import FollowedGroups
from twinlog.checkpoint.journal import Journal
from twinlog.errors import RefusedError
from twinlog.flows.chosen import policy_of
from twinlog.groups import GroupOffsets
from twinlog.kafka import faults
from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.snapshot import read_partition
from twinlog.read.records import Record
from twinlog.settings import FlowSettings
from twinlog.topics import listed
from twinlog.types import GroupId, TopicName, TopicPartition

log = logging.getLogger(__name__)

READ_S = 30.0
LOOK_AGAIN_S = 30.0
"""How often everything is translated anew: a remote topic may have been made anew, or the checkpoints deleted."""

LOST_S = 60.0
"""How long an offset may have no translation before that is said."""

SAID = float("inf")
WRONG_S = 5.0
"""How long a coordinator may not tell a group's offsets before that is said: it may have to load them first."""

GroupCheckpoints = dict[TopicPartition, Checkpoint]


class CheckpointWriter:
    """The checkpoints of one flow; `turn` looks once at all groups (Kafka class MirrorCheckpointTask)."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, bearings: Bearings) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._bearings = bearings
        self._topic = policy_of(settings).checkpoints_topic(settings.source)
        factor = settings.checkpoints_replication_factor
        self._journal = Journal(settings.name, target, self._topic, factor, "checkpoints")
        self._groups = FollowedGroups(settings, source, bearings.accepts)
        self._lock = threading.Lock()
        self._last: dict[GroupId, GroupCheckpoints] = defaultdict(dict)
        """The last checkpoint of each group and remote partition, as the topic holds them."""
        self._followed: set[GroupId] = set()
        self._seen: dict[GroupId, GroupOffsets] = {}
        self._unsettled: set[GroupId] = set()
        """Groups with an offset that has no exact translation yet."""
        self._untranslated: dict[tuple[GroupId, TopicName], float] = {}
        self._wrong: dict[GroupId, float] = {}
        self._read = False
        self._look_at = 0.0

    def checkpoints(self) -> dict[GroupId, GroupCheckpoints]:
        """The last checkpoints of all groups that are followed now; may be called from another thread."""
        with self._lock:
            return {group: dict(self._last[group]) for group in self._followed if group in self._last}

    def turn(self) -> str | None:
        """Write the checkpoints that are due; returns what could not be done for single groups.

        Writes nothing and asks only for offsets when no group committed anything. Raises ClusterError.
        """
        look = time.monotonic() >= self._look_at
        created = self._journal.ensure(look=look)
        if not self._read:
            self._read_last()
        elif created:
            log.warning("%s: topic %s was gone; its checkpoints are written again", self._settings.name, self._topic)
            with self._lock:
                self._last.clear()
        offsets, wrong = self._groups.read()
        changed = [
            group
            for group, committed in offsets.items()
            if look or created or group in self._unsettled or self._seen.get(group) is not committed
        ]
        if changed:
            self._bearings.refresh({where.topic for group in changed for where in offsets[group]})
            self._write([checkpoint for group in changed for checkpoint in self._due(group, offsets[group])])
        self._seen = dict(offsets)
        self._unsettled &= set(offsets)
        with self._lock:
            self._followed = set(offsets)
        if look:
            self._look_at = time.monotonic() + LOOK_AGAIN_S
            self._say_untranslated()
        return self._told(wrong)

    def _read_last(self) -> None:
        """Go on from the checkpoints that are there, so that none goes back for no reason."""
        try:
            read_partition(self._target, TopicPartition(self._topic, 0), self._take, READ_S)
        except RefusedError as error:
            log.warning(
                "%s: earlier checkpoints cannot be read and every group gets new ones, which may be older than those: "
                "%s; grant READ on topic %s",
                self._settings.name,
                error,
                self._topic,
            )
        self._read = True

    def _take(self, record: Record) -> None:
        where = decode_checkpoint_key(record.key)
        if where is None:
            return
        group, remote = where
        found = decode_checkpoint(record.key, record.value)
        if found is not None:
            self._last[group][remote] = found
        elif record.value is None:
            self._last[group].pop(remote, None)

    def _due(self, group: GroupId, offsets: GroupOffsets) -> list[Checkpoint]:
        last = self._last.get(group, {})
        due = []
        settled = True
        for where, committed in offsets.items():
            bearing = self._bearings.find(where, committed.offset)
            if bearing is None:
                # What was said to be lost is looked for again from time to time only.
                settled = settled and self._untranslated.setdefault((group, where.topic), time.monotonic()) == SAID
                continue
            settled = settled and bearing.exact
            self._untranslated.pop((group, where.topic), None)
            new = Checkpoint(group, *bearing.partition, committed.offset, bearing.offset, committed.metadata)
            if is_due(new, last.get(new.remote), exact=bearing.exact):
                due.append(new)
        if settled:
            self._unsettled.discard(group)
        else:
            self._unsettled.add(group)
        return due

    def _write(self, checkpoints: list[Checkpoint]) -> None:
        if not checkpoints:
            return
        self._journal.append((checkpoint.key, checkpoint.value) for checkpoint in checkpoints)
        with self._lock:
            for checkpoint in checkpoints:
                self._last[checkpoint.group][checkpoint.remote] = checkpoint

    def _say_untranslated(self) -> None:
        """A group without a checkpoint in a topic would begin there as a new one: say so once."""
        lost: dict[TopicName, list[str]] = defaultdict(list)
        for (group, topic), since in self._untranslated.items():
            if time.monotonic() - since > LOST_S:
                self._untranslated[group, topic] = SAID
                lost[topic].append(group)
        for topic, groups in lost.items():
            log.warning(
                "%s: no checkpoints in topic %s for group %s: it is not copied, or what the group has committed is "
                "older than everything known of its copy",
                self._settings.name,
                topic,
                listed(groups),
            )

    def _told(self, wrong: Mapping[GroupId, int]) -> str | None:
        now = time.monotonic()
        self._wrong = {group: self._wrong.get(group, now) for group in wrong}
        by_code: dict[int, list[str]] = defaultdict(list)
        for group, since in self._wrong.items():
            if now - since > WRONG_S:
                by_code[wrong[group]].append(group)
        if not by_code:
            return None
        code, groups = min(by_code.items())
        if faults.refused(code):
            return str(self._source.client.lacks("DESCRIBE", f"group {listed(groups)}", "reading its offsets"))
        return f"group {listed(groups)} on {self._settings.source}: {faults.explain(code)}"
