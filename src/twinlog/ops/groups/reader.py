"""Reads the offsets of a flow's consumer groups from both clusters, and judges which groups may move."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches

from twinlog.errors import ClusterError, GroupGoneError, RefusedError, TopicGoneError
from twinlog.errors.message_ids import told
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.admin.groups import GroupAdmin, topics_read
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.record.last_records import LastRecords, taken
from twinlog.kafka.retry import LOOK_CONNECT_S
from twinlog.mirror.groups.followed_groups import group_refusal
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.move_facts import MoveFacts
from twinlog.mirror.groups.safe_move import judge
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionsOfAll
from twinlog.mirror.records import Checkpoint, decode_checkpoint
from twinlog.mirror.topology.filters import DefaultGroupFilter
from twinlog.mirror.topology.plugins import group_filter_of, policy_of, topic_filter_of
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.mirror.unlisted_topics import HiddenOffsets
from twinlog.model.groups import GroupOffsets
from twinlog.model.topics import listed
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.groups.places import GroupPlaces, GroupPlacesReader
from twinlog.ops.groups.snapshot import GroupPartitionStatus, GroupsSnapshot, GroupStatus
from twinlog.ops.inventory import LogOffsets, logs_of
from twinlog.ops.status.readers import ClusterGroups, ClustersReader, ask_twice, read_groups, read_offsets
from twinlog.settings.flow import FlowSettings


class GroupsReader(ClustersReader):
    """The groups of a flow; a repeated `read` reads only the new records.

    `settings` follow the groups: a flow of a file, or a checkpoint connector. `copied_by` are the flows that copy for
    it, and `reverse` is the flow back, if there is any.
    """

    def __init__(
        self,
        settings: FlowSettings,
        copied_by: Sequence[FlowSettings] = (),
        reverse: FlowSettings | None = None,
        *,
        connect: Connect = ClusterAdmin,
        connect_s: float = LOOK_CONNECT_S,
    ) -> None:
        self._connect_s = connect_s
        self.settings = settings
        copied_by = copied_by or (settings,)
        self._source, self._target = both_clusters(settings, connect)
        super().__init__((self._target, self._source))
        self._topologies: list[Topology] = [topology_of(flow) for flow in copied_by]
        self._topics = topic_filter_of(settings)
        self._groups: DefaultGroupFilter = group_filter_of(settings)
        self._maps = MapStore(copied_by[0], self._target, PositionsOfAll(copied_by, self._target))
        self._places = GroupPlacesReader(settings, self._source, self._target, self._maps, reverse)
        self._translator = self._places.translator
        checkpoints = policy_of(settings).checkpoints_topic(settings.source_name)
        self._checkpoints = TopicReader(self._target, checkpoints, optional=True)
        self._moves = GroupMovesReader(settings, self._target)
        self._returns = GroupReturnsReader(settings, self._source)
        self._news: LastRecords = {}
        self._last: dict[GroupId, dict[TopicPartition, tuple[Checkpoint, int]]] = {}

    def read(self, wanted: Sequence[str] = (), *, most_repeats: int = 0) -> GroupsSnapshot:
        """Return the present state of the `wanted` groups, or of all groups that the flow follows.

        The target is read before the source: otherwise a group that commits in between would seem to skip records.
        Raises ClusterError when the target fails to answer or both clusters lack a wanted group, RefusedError if a
        right is missing.
        """
        names = [GroupId(name) for name in wanted]
        there = ask_twice(self._target, lambda: self._read_groups(self._target, names))
        ask_twice(self._target, self._read_checkpoints)
        moves = ask_twice(self._target, self._moves.read)
        trouble, here = None, ClusterGroups()
        try:
            here = ask_twice(self._source, lambda: self._read_groups(self._source, names, self._with_checkpoints()))
        except RefusedError:
            raise
        except ClusterError as error:
            trouble = told(error, "TW-WAIT-01")
        read_here = here.offsets
        if trouble is None:
            here.offsets = ask_twice(self._source, lambda: self._without_copies(read_here))
        hidden: HiddenOffsets | None = None
        returns: GroupMoves = {}
        repeats: Mapping[GroupId, str] = {}
        if trouble is None:
            returns = ask_twice(self._source, self._returns.read)
            moves = self._returns.mark_ended(moves)
            repeats = self._returns.valid_repeats(self._moves.repeats)
            topics = {where.topic for offsets in here.offsets.values() for where in offsets}
            ask_twice(self._target, lambda: self._learn(topics))
            hidden = ask_twice(self._source, self._translator.find_hidden)
        unseen = {} if hidden is None else self._hidden_positions(hidden, here)
        chosen, left_out = self._choose(wanted, here, trouble, read_here, unseen, hidden)
        committed = {group: here.offsets.get(group, {}) for group in chosen}
        # A coordinator returns the offsets of consumer groups only, even when asked for a share group.
        read = there.offsets.keys() | there.silent
        missing = [group for group in chosen if group not in read and there.other_kind(group) is None]
        if missing:
            found, silent = ask_twice(self._target, lambda: read_offsets(self._target, missing))
            there.offsets, there.silent = {**there.offsets, **found}, {**there.silent, **silent}
        source_logs, target_logs = ask_twice(self._target, lambda: self._logs(chosen, committed, trouble))
        places: GroupPlaces = {}
        starts_there: Mapping[TopicPartition, TargetOffset] = {}
        if trouble is None:
            mirrored = self._mirrored(committed)
            places = self._read_places(mirrored, source_logs)
            starts = {where: log.start for where, log in source_logs.items()}
            starts_there = ask_twice(self._target, lambda: self._places.translate_starts(mirrored, starts))
            needed = self._places.needed_offsets(committed, places, there.offsets)
            here.offsets = {**here.offsets, **needed}
            copies_only = [group for group in chosen if committed[group] and not needed[group]]
            if wanted and copies_only:
                raise GroupGoneError(self._nowhere(copies_only[0], here, trouble, stays=True))
            chosen = [group for group in chosen if group not in copies_only]
        groups = tuple(
            self._standing(
                group,
                here,
                there,
                source_logs,
                target_logs,
                starts_there,
                moves,
                places,
                trouble,
                most_repeats,
                returns,
                unseen.get(group, {}),
                None if hidden is None else hidden.right,
                repeats.get(group, ""),
            )
            for group in chosen
        )
        at_ms = int(self._target.clock.wall() * 1000)
        return GroupsSnapshot(self.settings.name, at_ms, groups, tuple(left_out), trouble, here.unlisted, hidden)

    def _read_groups(
        self, cluster: ClusterAdmin, wanted: Sequence[GroupId], known: Sequence[GroupId] = ()
    ) -> ClusterGroups:
        if not cluster.client.connected:
            cluster.connect(self._connect_s)
        try:
            return read_groups(cluster, wanted, known)
        except RefusedError as error:
            # Brokers also refuse a group that is unknown: its name may be wrong.
            refused = [group for group in wanted if error.resource == f"group {group}"]
            strange = [group for group in refused if not self._groups.accepts(group)]
            if not strange:
                raise
            text = f"{error}; or correct the name, as the groups of {self.settings.name} leave out {strange[0]}: "
            text += ", ".join(self.settings.groups)
            raise RefusedError(text, resource=error.resource, message_id=error.message_id) from None

    def _hidden_positions(
        self, hidden: HiddenOffsets, here: ClusterGroups
    ) -> dict[GroupId, dict[TopicPartition, TopicPartition]]:
        """By group, the partitions of hidden topics in which the group has checkpoints, with the remote partitions."""
        remotes = {self._remote(TopicPartition(topic, 0)): topic for topic in hidden.topics}
        topics = {remote.topic: topic for remote, topic in remotes.items() if remote is not None}
        found: dict[GroupId, dict[TopicPartition, TopicPartition]] = {}
        for group in self._with_checkpoints():
            own = {
                TopicPartition(topics[remote.topic], remote.partition): remote
                for remote in self._last[group]
                if remote.topic in topics
            }
            if own and group in here.listed:
                found[group] = own
        return found

    def _without_copies(self, offsets: Mapping[GroupId, GroupOffsets]) -> dict[GroupId, GroupOffsets]:
        """Remove the offsets in copies beside their originals, within a cluster."""
        beside = self._translator.is_copy_beside
        return {
            group: {where: committed for where, committed in found.items() if not beside(where.topic)}
            for group, found in offsets.items()
        }

    def _learn(self, topics: set[TopicName]) -> None:
        try:
            self._places.refresh(topics)
        except TopicGoneError as error:
            raise ClusterError(f"{error}: {self.settings.name} is yet to run") from error

    def _mirrored(self, committed: Mapping[GroupId, GroupOffsets]) -> dict[GroupId, GroupOffsets]:
        """The offsets that have a translation: the search for any other offset reads all offset syncs, in vain."""
        return {
            group: {where: one for where, one in offsets.items() if self._not_mirrored(where.topic) is None}
            for group, offsets in committed.items()
        }

    def _read_places(
        self, mirrored: Mapping[GroupId, GroupOffsets], source_logs: Mapping[TopicPartition, LogOffsets]
    ) -> GroupPlaces:
        ends = {where: log.end for where, log in source_logs.items()}
        last = [one for checkpoints in self._last.values() for one, _ in checkpoints.values()]
        return ask_twice(self._target, lambda: self._places.read_places(mirrored, ends, last))

    def _read_checkpoints(self) -> None:
        self._checkpoints.read_last(self._news)
        for _, record in taken(self._news, lambda kept: (kept.decode(), kept.timestamp)):
            checkpoint = decode_checkpoint(record[0].key, record[0].value)
            if checkpoint is not None:
                self._last.setdefault(checkpoint.group, {})[checkpoint.remote] = (checkpoint, record[1])

    def _with_checkpoints(self) -> list[GroupId]:
        return [group for group in self._last if self._groups.accepts(group)]

    def _choose(
        self,
        wanted: Sequence[str],
        here: ClusterGroups,
        trouble: str | None,
        read_here: Mapping[GroupId, GroupOffsets],
        unseen: Collection[GroupId],
        hidden: HiddenOffsets | None,
    ) -> tuple[list[GroupId], list[GroupId]]:
        """The groups to show, and the remaining groups that have committed in a mirrored topic.

        `read_here` has also the offsets in copies that stay. `unseen` are groups with positions in `hidden` topics.
        """
        if wanted:
            chosen = [GroupId(name) for name in dict.fromkeys(wanted)]
            for group in chosen:
                stays = bool(read_here.get(group)) and not here.offsets.get(group)
                if stays or (not here.offsets.get(group) and group not in self._last):
                    gone = trouble is None and group not in here.silent
                    text = self._nowhere(group, here, trouble, stays=stays)
                    if gone and hidden is not None and not stays:
                        raise RefusedError(f"{text}; {hidden.right}", message_id="TW-RIGHT-02")
                    raise (GroupGoneError if gone else ClusterError)(text)
            return chosen, []
        if trouble is not None:
            return sorted(self._with_checkpoints()), []
        reads = sorted(
            group
            for group, offsets in here.offsets.items()
            if any(self._not_mirrored(where.topic) is None for where in offsets)
        )
        silent = [group for group in self._with_checkpoints() if group in here.silent]
        to_switchover = self._translator.left_to_switchover
        return sorted({*silent, *unseen, *(one for one in reads if self._groups.accepts(one))}), [
            one
            for one in reads
            if not self._groups.accepts(one) and not all(to_switchover(where.topic) for where in here.offsets[one])
        ]

    def _nowhere(self, group: GroupId, here: ClusterGroups, trouble: str | None, *, stays: bool) -> str:
        if trouble is not None:
            return f"a checkpoint of group {group} is missing on {self._target.alias}, and {trouble}"
        if group in here.silent:
            return f"cluster {self._source.alias}: {here.silent[group]}"
        if stays:
            return (
                f"cluster {self._source.alias}: group {group} has committed offsets only in copies from "
                f"{self._target.alias}, which need no copy there"
            )
        close = get_close_matches(group, [*here.listed, *self._last], n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        return f"cluster {self._source.alias}: group {group} lacks committed offsets{hint}"

    def _not_mirrored(self, topic: TopicName) -> str | None:
        """The obstacle, if any, for groups that would read a source topic on the target."""
        if self._translator.came_from_target(topic):
            return None
        refusals = [one.refusal(topic) for one in self._topologies]
        return self._topics.refusal(topic) if None in refusals else refusals[0]

    def _remote(self, partition: TopicPartition) -> TopicPartition | None:
        return self._translator.remote(partition)

    def _logs(
        self, chosen: Sequence[GroupId], committed: Mapping[GroupId, GroupOffsets], trouble: str | None
    ) -> tuple[Mapping[TopicPartition, LogOffsets], Mapping[TopicPartition, LogOffsets]]:
        """The source's logs, and the target's logs, these first: see `safe_move`."""
        here = {where for offsets in committed.values() for where in offsets}
        remote = {there for where in here if (there := self._remote(where)) is not None}
        remote |= {where for group in chosen for where in self._last.get(group, {})}
        target_logs = logs_of(self._target, sorted(remote))
        source_logs: Mapping[TopicPartition, LogOffsets] = {}
        if trouble is None:
            with suppress(ClusterError):
                source_logs = ask_twice(self._source, lambda: logs_of(self._source, sorted(here)))
        return source_logs, target_logs

    def _standing(
        self,
        group: GroupId,
        here: ClusterGroups,
        there: ClusterGroups,
        source_logs: Mapping[TopicPartition, LogOffsets],
        target_logs: Mapping[TopicPartition, LogOffsets],
        starts_there: Mapping[TopicPartition, TargetOffset],
        moves: GroupMoves,
        places: GroupPlaces,
        trouble: str | None,
        most_repeats: int,
        returns: GroupMoves,
        unseen: Mapping[TopicPartition, TopicPartition],
        missing_right: str | None,
        repeat: str,
    ) -> GroupStatus:
        trouble = trouble or here.silent.get(group)
        known = here.listed.get(group)
        not_followed = self._groups.refusal(group) if known is None else group_refusal(self._groups, known)
        checkpoints = self._last.get(group, {})
        offsets = here.offsets.get(group, {})
        wanted = {**unseen, **{where: self._remote(where) for where in offsets}}
        if trouble is not None:
            # While the source is silent, only the remote names are known.
            wanted = {where: where for where in checkpoints}
        other = there.other_kind(group) or self._other_application(group, there, set(wanted.values()))
        parts = []
        for where, remote in sorted(wanted.items()):
            committed = offsets.get(where)
            checkpoint = checkpoints.get(remote) if remote is not None else None
            place = places.get((group, where))
            target = there.offsets.get(group, {}).get(remote) if remote is not None else None
            log = None if remote is None else target_logs.get(remote)
            own = source_logs.get(where)
            source_end = None if own is None else SourceOffset(own.end)
            facts = MoveFacts(
                group,
                where,
                remote,
                committed=None if committed is None else SourceOffset(committed.offset),
                source_start=None if own is None else SourceOffset(own.start),
                source_end=source_end,
                source_start_there=starts_there.get(where),
                copied=self._places.copied_up_to(where, source_end),
                translated=None if place is None or place.offset is None else TargetOffset(place.offset),
                exact=place is not None and place.exact,
                past_copies=None if place is None or place.past is None else TargetOffset(place.past),
                checkpoint_source=None if checkpoint is None else checkpoint[0].upstream,
                checkpoint_target=None if checkpoint is None else checkpoint[0].downstream,
                target_committed=None if target is None else TargetOffset(target.offset),
                target_start=None if log is None else TargetOffset(log.start),
                target_end=None if log is None else TargetOffset(log.end),
                target_leader=log is not None,
                from_target=trouble is None and self._translator.came_from_target(where.topic),
                left_to_switchover=trouble is None and self._translator.left_to_switchover(where.topic),
                not_mirrored=None if trouble is not None else self._not_mirrored(where.topic),
                not_followed=not_followed,
                hidden=missing_right if where in unseen and committed is None else None,
                other_kind=other,
                in_transaction=group in here.in_transaction,
                active_on_source=here.active(group),
                active_on_target=there.active(group),
                checkpoints=self.settings.emit_checkpoints_interval_s is not None,
                syncs=self.settings.sync_group_offsets_interval_s is not None,
                source_answers=trouble is None,
                target_answers=group not in there.silent,
                move=None if remote is None else moves.get((group, remote)),
                returned=None if remote is None else returns.get((group, remote)),
                repeat=repeat,
            )
            verdict = judge(facts, most_repeats=most_repeats)
            parts.append(GroupPartitionStatus(facts, verdict, None if checkpoint is None else checkpoint[1]))
        return GroupStatus(group, tuple(parts), here.state(group), there.state(group))

    def _other_application(
        self, group: GroupId, there: ClusterGroups, remotes: set[TopicPartition | None]
    ) -> str | None:
        """Describe the application with the group's name on the target, if its members leave out all remote topics; in
        this case the group has yet to move."""
        if not there.active(group):
            return None
        try:
            read = topics_read(self._target.call(GroupAdmin(self._target.client).described, group))
        except ClusterError:
            return None
        if read is None or not read.isdisjoint(remote.topic for remote in remotes if remote is not None):
            return None
        return f"another application, which reads {listed(read)}"
