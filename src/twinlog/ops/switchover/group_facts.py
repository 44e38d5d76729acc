"""Reads the groups of both clusters, and the offsets at which each would continue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.offsets import EARLIEST
from twinlog.kafka.retry import SWITCHOVER_GROUPS
from twinlog.mirror.groups.group_moves import GroupMoves, GroupMovesReader, GroupReturnsReader
from twinlog.mirror.groups.group_offsets import TranslatedGroupOffset
from twinlog.mirror.groups.group_places import GroupPlace, GroupPlaceProver, place_of
from twinlog.mirror.offsets.translator import Translator
from twinlog.mirror.records import Checkpoint
from twinlog.mirror.topology.plugins import group_filter_of, policy_of, topic_filter_of
from twinlog.model.groups import CommittedOffset, GroupListing, GroupOffsets
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.switchover.commit_rights import lacks_read
from twinlog.ops.switchover.model import GroupOffset, MovedGroups, MovedTopic, RefusedCommits
from twinlog.settings.flow import FlowSettings

_IN_USE = frozenset({Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS})
"""The answers to a commit from outside of a group that has members."""


def _trouble(code: int) -> str:
    if code == Code.UNSTABLE_OFFSET_COMMIT:
        return "it has committed in a transaction that is still open; run the same command again after its end"
    return error_codes.explain(code)


def _better(ways: Iterable[Callable[[], GroupPlace]]) -> GroupPlace:
    """Return the first exact place, else the furthest: an inexact place only repeats records."""
    found = []
    for way in ways:
        place = way()
        if place.exact:
            return place
        found.append(place)
    # After moves to and fro, a history of offset syncs spans records that came the other way.
    return max(found, key=lambda one: -1 if one.offset is None else one.offset)._replace(by="")


class SwitchoverGroups:
    """The groups of a flow, as `follows` filters them; `back` is the flow in the opposite direction."""

    def __init__(
        self,
        flow: FlowSettings,
        back: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        follows: FlowSettings,
    ) -> None:
        self._flow = flow
        self._policy = policy_of(flow)
        self._filter = group_filter_of(follows)
        self._topics = topic_filter_of(follows)
        self._source = source
        self._target = target
        self._forward = Translator(flow, source, target)
        self._back = Translator(back, target, source)
        self._proofs = GroupPlaceProver(flow, back, source, target, self._filter.accepts)
        self._moves = GroupMovesReader(flow, target)
        self._returns = GroupReturnsReader(flow, source)
        self._refreshed: set[str] = set()
        self.known: set[GroupId] = set()
        """The followed groups that the source has listed since the last `forget_groups`."""

    def with_members(self) -> tuple[list[str], list[str]]:
        """The followed groups that have members on the source, and on the target."""
        here, there = (self._listed(admin) for admin in (self._source, self._target))
        self.known |= here.keys()
        return ([name for name, group in here.items() if not group.empty], [n for n, g in there.items() if not g.empty])

    def forget_groups(self) -> None:
        """Forget the known groups: groups may have been deleted since."""
        self.known.clear()

    def _listed(self, admin: ClusterAdmin) -> dict[GroupId, GroupListing]:
        found: Mapping[GroupId, GroupListing] = admin.call(GroupAdmin(admin.client).listed)
        return {name: group for name, group in found.items() if group.commits and self._filter.accepts(name)}

    def _offsets(
        self, admin: ClusterAdmin, groups: Collection[GroupId]
    ) -> tuple[Mapping[GroupId, GroupOffsets], Mapping[GroupId, int]]:
        """Return the committed offsets of groups, and the error codes of unreadable groups.

        Waits while a coordinator moves or loads, and then raises ClusterError: a group with an unknown target offset
        could be set back. On the source transactions with offsets of a group are waited for, too.
        """
        reader = GroupAdmin(admin.client)
        read = reader.stable_offsets if admin is self._source else reader.offsets
        found: dict[GroupId, GroupOffsets] = {}
        wrong: dict[GroupId, int] = {}
        waits = set(groups)
        for _ in range(int(SWITCHOVER_GROUPS.tries)):
            news, codes = admin.call(read, sorted(waits))
            found.update(news)
            later = {group: code for group, code in codes.items() if code in error_codes.RETRIABLE}
            open_ones = {group for group, code in codes.items() if code == Code.UNSTABLE_OFFSET_COMMIT}
            wrong = {group: code for group, code in wrong.items() if group not in waits} | dict(codes)
            waits = open_ones | later.keys()
            if not waits:
                return found, wrong
            admin.clock.sleep(SWITCHOVER_GROUPS.first_s)
        for group, code in later.items():
            raise ClusterError(f"cluster {admin.alias}: offsets of group {group}: {error_codes.explain(code)}")
        return found, wrong

    def read_groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str] = (),
    ) -> MovedGroups:
        """See `SwitchoverClusters.groups`."""
        self._refreshed.clear()
        listed = self._listed(self._source)
        # While its coordinator moves, a group is missing from the lists of both the old and the new broker.
        self.known |= {*listed, *map(GroupId, known)}
        committed, wrong = self._offsets(self._source, self.known)
        if any(name not in listed for name in committed if committed[name]):
            # By now its coordinator answers and tells whether the group has members.
            listed = self._listed(self._source)
        groups = {
            name: listed.get(name) for name in self.known if name in listed or name in wrong or committed.get(name)
        }
        moved = {topic.name: topic.remote for topic in topics}
        places = {
            (group, where): place
            for group, offsets in sorted(committed.items())
            for where, what in sorted(offsets.items())
            if (place := self._place(where, what.offset, moved, cut, there, began)) is not None
        }
        inexact = {key: one for key, one in places.items() if one.by and not one.exact}
        places |= self._proofs.prove(inexact, committed, cut)
        found = [
            GroupOffset(
                group,
                where,
                committed[group][where].offset,
                place.partition,
                place.offset,
                place.exact,
                metadata=committed[group][where].metadata,
                past_copies=place.past,
                left_to_switchover=self._upstream(where.topic) is not None and not self._topics.accepts(where.topic),
            )
            for (group, where), place in places.items()
        ]
        troubles = {group: _trouble(code) for group, code in wrong.items()}
        seen = self._with_target(groups, found, troubles, topics, cut, self._returns.read())
        # While records before an offset are uncopied, the target's present end bounds nothing.
        offsets = [one if self._is_copied(one, cut) else replace(one, target_end=None) for one in seen.offsets]
        # The partitions of a silent leader stay without a start, and their groups with the obstacle.
        starts = self._source.list_answered_offsets({one.source for one in offsets if one.begins_by_reset}, EARLIEST)

        def with_start(one: GroupOffset) -> GroupOffset:
            start = starts.get(one.source)
            if start is None or not one.begins_by_reset:
                return one
            place = self._place(one.source, start, moved, cut, there, began)
            known = place.offset if place is not None and place.partition == one.target else None
            return replace(one, source_start=start, source_start_there=known)

        return replace(seen, offsets=tuple(map(with_start, offsets)))

    def _is_copied(self, one: GroupOffset, cut: Mapping[TopicPartition, int]) -> bool:
        """Whether the target has all records before an offset."""
        return self._upstream(one.source.topic) is not None or (one.offset or 0) <= cut.get(one.source, -1)

    def _place(
        self,
        where: TopicPartition,
        offset: int,
        moved: Mapping[TopicName, TopicName],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
    ) -> GroupPlace | None:
        """Return the place at which a group continues that has committed `offset`; None for topics that stay."""
        upstream = self._upstream(where.topic)
        if upstream is not None:
            return self._came_back(TopicPartition(upstream, where.partition), offset)
        if where.topic not in moved:
            return None
        remote = TopicPartition(moved[where.topic], where.partition)
        if where in cut and offset == cut[where] and offset >= began.get(where, 0):
            # Both are ends: the group has read all records, and its offset is exact already.
            return GroupPlace(remote, there.get(where), where in there)
        if where not in began:
            return self._went(where, remote, offset)
        # After moves to and fro, the log alternates between records written here and copied records: each flow knows
        # its own part.
        ways = [lambda: self._went(where, remote, offset), lambda: self._came_back(remote, offset)]
        return _better(ways[::-1] if offset < began[where] else ways)

    def _upstream(self, topic: TopicName) -> TopicName | None:
        """The topic of the target that a topic of the source is a copy of, by its name."""
        return None if self._flow.keeps_names else self._policy.source_topic(self._flow.target_name, topic)

    def _went(self, where: TopicPartition, remote: TopicPartition, offset: int) -> GroupPlace:
        self._refresh("there", self._forward)
        found = self._forward.to_target(where, SourceOffset(offset))
        known = None if found is None else TranslatedGroupOffset.of(remote, found)
        return place_of(remote, known, "there", lambda: self._forward.past_copies(where, SourceOffset(offset)))

    def _came_back(self, there: TopicPartition, offset: int) -> GroupPlace:
        self._refresh("back", self._back)
        found = self._back.to_source(there, TargetOffset(offset))
        return place_of(there, None if found is None else TranslatedGroupOffset.of(there, found), "back")

    def _refresh(self, name: str, translator: Translator) -> None:
        if name not in self._refreshed:
            translator.refresh()
            self._refreshed.add(name)

    def by_checkpoints(self, topics: Collection[MovedTopic], cut: Mapping[TopicPartition, int]) -> MovedGroups:
        """See `SwitchoverClusters.groups_by_checkpoints`."""
        with suppress(RefusedError):
            self._forward.refresh_maps()
        checkpoints = list(self._proofs.read_checkpoints())
        found = []
        for checkpoint in checkpoints:
            upstream = self._policy.source_topic(self._flow.source_name, checkpoint.remote.topic)
            here = TopicPartition(upstream or checkpoint.remote.topic, checkpoint.remote.partition)
            place = self._checkpointed(here, checkpoint)
            found.append(
                GroupOffset(
                    checkpoint.group,
                    here,
                    checkpoint.upstream,
                    checkpoint.remote,
                    place.offset,
                    place.exact,
                    metadata=checkpoint.metadata,
                    past_copies=place.past,
                )
            )
        groups = {GroupId(one.group): None for one in found}
        found += self._in_copies_on_source(groups, topics)
        return replace(self._with_target(groups, found, {}, topics, cut, {}), source_answers=False)

    def _in_copies_on_source(self, groups: Collection[GroupId], topics: Collection[MovedTopic]) -> list[GroupOffset]:
        """The positions on the target of groups that may have read on in copies on the lost source: the flow writes no
        checkpoints of these copies."""
        originals = {topic.producers for topic in topics if topic.producers and not topic.keeps_name}
        offsets, _ = self._offsets(self._target, sorted(groups)) if originals and groups else ({}, {})
        present = {(group, where): one.offset for group in offsets for where, one in offsets[group].items()}
        ends = self._target.offsets({where for _, where in present if where.topic in originals}, latest=True)
        name, policy = self._flow.target_name, self._policy
        return [
            GroupOffset(
                group,
                TopicPartition(policy.remote_name(name, where.topic), where.partition),
                None,
                where,
                None,
                left_to_switchover=True,
            )
            for (group, where), offset in sorted(present.items())
            if offset < ends.get(where, 0)
        ]

    def _checkpointed(self, where: TopicPartition, checkpoint: Checkpoint) -> GroupPlace:
        """The place of a checkpoint by the map on the target, as far as it knows the offset."""
        known = self._forward.by_map(where, checkpoint.upstream)
        if known is None:
            return GroupPlace(checkpoint.remote, checkpoint.downstream, False)
        if known.exact or known.by == "start":
            return GroupPlace(checkpoint.remote, known.offset, known.exact)
        past = self._forward.past_copies(where, checkpoint.upstream)
        # A checkpoint past all copies of the records before it is of an earlier log.
        later = past is not None and checkpoint.downstream > past
        least = known.offset if later else max(known.offset, checkpoint.downstream)
        return GroupPlace(checkpoint.remote, least, False, past=past)

    def _with_target(
        self,
        groups: Mapping[GroupId, GroupListing | None],
        found: Sequence[GroupOffset],
        troubles: Mapping[GroupId, str],
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        returns: GroupMoves,
    ) -> MovedGroups:
        names = sorted({GroupId(one.group) for one in found})
        present: Mapping[GroupId, GroupOffsets] = {}
        if names:
            present, _ = self._offsets(self._target, names)
        # Last: a coordinator that moved lists its groups once it has answered.
        listed = self._listed(self._target)
        moves = self._returns.mark_ended(self._moves.read())
        places = (*found, *self._in_new(found, present, topics, cut))
        starts, ends = self._logs({one.target for one in places})
        offsets = []
        for one in places:
            on_target = present.get(GroupId(one.group), {}).get(one.target)
            move, returned = (known.get((GroupId(one.group), one.target)) for known in (moves, returns))
            stands = None if on_target is None else on_target.offset
            start, end = starts.get(one.target), ends.get(one.target)
            news = replace(one, present=stands, move=move, returned=returned, target_start=start, target_end=end)
            offsets.append(news)
        return MovedGroups(
            {str(name): "" if group is None else group.state for name, group in groups.items()},
            {str(name): group.state for name, group in listed.items()},
            tuple(offsets),
            {str(name): text for name, text in troubles.items()},
        )

    def _in_new(
        self,
        found: Sequence[GroupOffset],
        present: Mapping[GroupId, GroupOffsets],
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
    ) -> list[GroupOffset]:
        """Set groups at the first record of new topics that producers will use beside the copies.

        With `auto.offset.reset=latest` a group would skip earlier records. If a topic has records already, the group
        itself chooses its begin.
        """
        new = {topic.name: topic for topic in topics if topic.producers and not topic.keeps_name}
        parts = [
            TopicPartition(topic.producers, number) for topic in new.values() for number in range(topic.partitions)
        ]
        starts, ends = self._logs(parts)
        unknown = self._existing({there for there in parts if there not in ends or there not in starts})
        known = {(one.group, one.target) for one in found}
        reads = {(one.group, one.source.topic) for one in found if one.source.topic in new}
        return [
            GroupOffset(
                group,
                here,
                cut.get(here, 0),
                there,
                None if there in unknown else ends[there],
                exact=there not in unknown,
            )
            for group, name in sorted(reads)
            for number in range(new[name].partitions)
            for here, there in [(TopicPartition(name, number), TopicPartition(new[name].producers, number))]
            if (there in unknown or (there in ends and ends[there] == starts.get(there)))
            and (group, there) not in known
            and there not in present.get(GroupId(group), {})
        ]

    def _logs(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
        """The starts and the ends of logs on the target; unknown logs are left out."""
        if not partitions:
            return {}, {}
        starts = self._target.offsets(partitions, latest=False)
        return starts, self._target.offsets(partitions, latest=True)

    def _existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The existing partitions among these; empty before the topics are created."""
        topics = self._target.topics() if partitions else {}
        return {one for one in partitions if one.topic in topics and one.partition < topics[one.topic].partitions}

    def commit(self, offsets: Sequence[GroupOffset]) -> RefusedCommits:
        """See `SwitchoverClusters.commit_groups`; a coordinator that moves or loads is waited for."""
        wanted: dict[GroupId, GroupOffsets] = {}
        for one in offsets:
            if one.there is not None:
                wanted.setdefault(GroupId(one.group), {})[one.target] = CommittedOffset(one.there, one.metadata)
        refused: dict[GroupId, dict[TopicPartition, int]] = {}
        admin = GroupAdmin(self._target.client)
        for _ in range(int(SWITCHOVER_GROUPS.tries)):
            if not wanted:
                return {}
            refused = self._target.call(admin.commit, wanted)
            again = {
                group
                for group, codes in refused.items()
                if any(code in error_codes.RETRIABLE for code in codes.values())
            }
            if not again:
                break
            wanted = {group: wanted[group] for group in again}
            self._target.clock.sleep(SWITCHOVER_GROUPS.first_s)
        return {
            (str(group), where): self._why_refused(group, where, code)
            for group, codes in refused.items()
            for where, code in codes.items()
        }

    def _why_refused(self, group: GroupId, where: TopicPartition, code: int) -> str:
        alias = self._target.alias
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            return lacks_read(self._target, f"topic {where.topic}")
        if code == Code.GROUP_AUTHORIZATION_FAILED:
            return lacks_read(self._target, f"group {group}")
        if code in _IN_USE:
            return f"the group has got members on {alias}"
        return f"{alias} answered: {error_codes.explain(code)}"
