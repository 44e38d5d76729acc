"""Translates offsets of a flow to the other cluster: the offsets of a group, or a single offset; it only reads."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal, cast

from twinlog.errors import ClusterError, GroupGoneError, RefusedError, TopicGoneError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect, both_clusters
from twinlog.kafka.admin.groups import GroupAdmin
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.retry import COMMAND_CONNECT_S
from twinlog.mirror.groups.group_offsets import GroupOffsetTranslator, TranslatedGroupOffset
from twinlog.mirror.groups.group_places import GroupPlace, GroupPlaceProver, place_of
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.translator import Translation, Translator
from twinlog.mirror.topology.topology import topology_of
from twinlog.mirror.unlisted_topics import HiddenOffsets, find_hidden_back, find_hidden_offsets
from twinlog.model.groups import CommittedOffset
from twinlog.model.types import GroupId, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.ops.status.readers import ClustersReader, ask_twice, read_offsets
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TranslatedOffset:
    """The place of `offset` of `partition` on the other cluster: `found` in `there`, or the `reason` for its
    absence."""

    partition: TopicPartition
    offset: int
    there: TopicPartition | None = None
    found: Translation[SourceOffset] | Translation[TargetOffset] | None = None
    reason: str = ""


class Lookup(ClustersReader):
    """Reads from both clusters of a flow; use it as a context manager.

    With `back` it translates offsets of the flow's target to its source. Without it, offsets in copies from the target
    have their places in the originals by `reverse`, the flow back, if there is any. A coordinator that moves, and a
    broker that hangs for a moment, are waited for. Every method raises ClusterError when a needed cluster fails to
    answer, and RefusedError when a permission is missing.
    """

    def __init__(
        self,
        settings: FlowSettings,
        reverse: FlowSettings | None = None,
        *,
        back: bool = False,
        connect: Connect = ClusterAdmin,
        connect_s: float = COMMAND_CONNECT_S,
    ) -> None:
        self._connect_s = connect_s
        self._settings = settings
        self._reverse = reverse
        self._back = back
        self._topology = topology_of(settings)
        self._source, self._target = both_clusters(settings, connect)
        super().__init__((self._source, self._target))
        self._here = self._target if back else self._source
        self._maps = MapStore(settings, self._target, PositionStore(settings, self._target))
        self._translator = Translator(settings, self._source, self._target, self._maps)
        self._connected: set[str] = set()
        self._originals: set[TopicName] = set()
        """Topics of the source that are copies from the target."""
        self.hidden: HiddenOffsets | None = None
        """After `group`: the copied topics whose offsets the source hides; with `back` the copies, and the target."""
        here, there = (self._target, self._source) if back else (self._source, self._target)
        self._ways = GroupOffsetTranslator(settings, self._source, self._target, self._translator, reverse)
        ways = (self._ways.reverse, settings) if back else (settings, self._ways.reverse)
        self._proofs = GroupPlaceProver(*ways, here, there, lambda _group: True)

    def group(self, group: GroupId) -> list[TranslatedOffset]:
        """Return the translations of all offsets that a group has committed on the first cluster; raises ClusterError
        if the group has yet to commit."""
        try:
            self._connect(self._here)
        except RefusedError:
            raise
        except ClusterError as error:
            raise ClusterError(f"{error}; {self._way_out(group)}") from error
        found, silent = ask_twice(self._here, lambda: read_offsets(self._here, [group]))
        if silent:
            raise ClusterError(f"cluster {self._here.alias}: {silent[group]}; {self._way_out(group)}")
        ask_twice(self._target, self._learn)
        if not self._back:
            self._learn_back({where.topic for where in found.get(group, {})})
        self.hidden = ask_twice(self._here, self._find_hidden)
        if not found.get(group):
            if self.hidden is not None:
                text = f"cluster {self._here.alias}: group {group} lacks visible offsets; {self.hidden.right}"
                raise RefusedError(text, message_id="TW-RIGHT-02")
            known = [str(name) for name in self._here.call(GroupAdmin(self._here.client).listed)]
            close = get_close_matches(group, known, n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise GroupGoneError(f"cluster {self._here.alias}: group {group} lacks committed offsets{hint}")
        return self._prove(
            [self._translated(partition, committed.offset) for partition, committed in sorted(found[group].items())],
            group,
        )

    def _find_hidden(self) -> HiddenOffsets | None:
        seen, positions = self._here.topics(), self._maps.positions()
        if self._back:
            return find_hidden_back(self._target, self._topology, positions, seen)
        return find_hidden_offsets(self._source, self._topology, positions, seen, self._target.topics)

    def _way_out(self, group: GroupId) -> str:
        """Name the places with the offsets of a group whose cluster fails to answer."""
        if self._back:
            return "single offsets are translated with --topic, --partition and --offset"
        settings = self._settings
        topic = self._topology.policy.checkpoints_topic(settings.source_name)
        servers = ",".join(settings.target_admin.client.bootstrap_servers)
        committed = ""
        if settings.sync_group_offsets_interval_s is not None:
            tool = f"kafka-consumer-groups.sh --bootstrap-server {servers} --describe --group {group}"
            committed = f", and committed there: {tool}"
        return f"what {group} had committed last is in the checkpoints, topic {topic} of {settings.target}{committed}"

    def offset(self, partition: TopicPartition, offset: int) -> TranslatedOffset:
        """Return the translation of a single offset."""
        (found,) = self.offsets(partition, [offset])
        return found

    def offsets(self, partition: TopicPartition, offsets: Sequence[int]) -> list[TranslatedOffset]:
        """Return the translations of offsets of a partition, in their order."""
        ask_twice(self._target, self._learn)
        if not self._back:
            self._learn_back({partition.topic})
        return [self._prove([self._translated(partition, offset)])[0] for offset in offsets]

    def _connect(self, admin: ClusterAdmin) -> None:
        if admin.alias not in self._connected:
            admin.connect(self._connect_s)
            self._connected.add(admin.alias)

    def _learn(self) -> None:
        """Read positions, maps and, if the cluster that holds them answers, offset syncs."""
        self._connect(self._target)
        self._require_positions()
        self._maps.read()
        holder = self._source if self._settings.offset_syncs_location == "source" else self._target
        try:
            self._connect(holder)
            ask_twice(holder, self._translator.read_syncs)
        except ClusterError as error:
            self._translator.looked_at_syncs = True
            log.warning(
                "TW-GROUP-07: the offset syncs are unreadable, so only records that twinlog itself copied can be "
                "translated: %s",
                error,
            )

    def _learn_back(self, topics: Collection[TopicName]) -> None:
        """Read the positions of the flow back, on the source, if some of these topics came from the target."""
        if any(map(self._ways.came_from_target, topics)):
            self._connect(self._source)
            self._originals = {topic for topic in topics if self._is_copy_of_original(topic)}
            ask_twice(self._source, lambda: self._ways.refresh_back(topics))

    def _is_copy_of_original(self, topic: TopicName) -> bool:
        return self._ways.came_from_target(topic) and not self._ways.is_copy_beside(topic)

    def _require_positions(self) -> None:
        """Before the first run of a flow its topics are missing, and all offsets are unknown."""
        topic = TopicName(self._settings.positions_topic)
        found = self._target.call(self._target.client.refresh, [topic])[topic]
        if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicGoneError(
                f"cluster {self._target.alias} has no topic {topic}: flow {self._settings.name} has never run there"
            )

    def _translated(self, partition: TopicPartition, offset: int) -> TranslatedOffset:
        original = self._ways.remote(partition) if partition.topic in self._originals else None
        if original is not None:
            known = self._ways.to_original(original, SourceOffset(offset))
            reason = "" if known is not None else f"the flow back has no translation of it to {original}"
            return TranslatedOffset(partition, offset, original, known, reason)
        source = self._source_of(partition)
        if source is None:
            return TranslatedOffset(partition, offset, reason=self._own_topic(partition.topic))
        refusal = self._topology.refusal(source.topic)
        there = source if self._back else TopicPartition(self._topology.remote_name(source.topic), source.partition)
        found: Translation[SourceOffset] | Translation[TargetOffset] | None
        if self._back:
            found = self._translator.to_source(source, TargetOffset(offset))
        else:
            found = self._translator.to_target(source, SourceOffset(offset))
        if found is not None:
            return TranslatedOffset(partition, offset, there, found)
        if refusal is not None:
            return TranslatedOffset(
                partition, offset, reason=f"{self._settings.name} does not mirror {source.topic}: {refusal}"
            )
        if self._translator.has_partition(source):
            return TranslatedOffset(
                partition, offset, there, reason="it is older than any offset of this partition that can be translated"
            )
        return TranslatedOffset(
            partition, offset, there, reason=f"{self._settings.name} has not copied this partition yet"
        )

    def _own_topic(self, topic: TopicName) -> str:
        """The reason why a topic of the target without an original has no translation back."""
        text = f"{topic} is no copy by {self._settings.name}: its records were produced on {self._settings.target}"
        reverse = self._reverse
        if reverse is None or not reverse.copies or not topology_of(reverse).mirrors(topic):
            return text
        return f"{text}, and `twinlog translate` with --flow {reverse.as_option}, without --back, translates it"

    def _prove(self, answers: list[TranslatedOffset], group: GroupId | None = None) -> list[TranslatedOffset]:
        """Return the answers with the nearest places that are proven, as `twinlog groups` shows them.

        The checkpoints of a `group` count, too. Without an answer of both clusters the translations stay.
        """
        inexact = [one for one in answers if one.found and not one.found.exact and one.found.by != "start"]
        if not inexact or len(self._connected) < 2:
            return answers
        name = group or GroupId("")
        places = {
            (name, one.partition): place_of(
                one.there,
                TranslatedGroupOffset.of(one.there, one.found),
                self._by(one.partition),
                partial(self._past, one),
            )
            for one in inexact
            if one.there is not None and one.found is not None
        }
        committed = {name: {one.partition: CommittedOffset(one.offset) for one in inexact}}
        there = [one.partition for one in inexact if self._by(one.partition) == "there"]
        cut = {partition: self._copied_up_to(partition) for partition in there}
        no_checkpoints = None if group is not None else ()
        try:
            proven = ask_twice(self._target, lambda: self._proofs.prove(places, committed, cut, no_checkpoints))
        except ClusterError as error:
            log.debug("inexact offsets keep their translation: %s", error)
            return answers
        return [_nearer(one, proven.get((name, one.partition))) for one in answers]

    def _copied_up_to(self, partition: TopicPartition) -> int:
        position, synced = self._maps.position(partition), self._translator.synced_up_to(partition)
        return max(0 if position is None else int(position.next_source), synced or 0)

    def _by(self, partition: TopicPartition) -> Literal["there", "back"]:
        """The flow whose maps and offset syncs translate an offset of a partition."""
        return "back" if self._back or partition.topic in self._originals else "there"

    def _past(self, one: TranslatedOffset) -> int | None:
        return (
            None
            if self._by(one.partition) == "back"
            else self._translator.past_copies(one.partition, SourceOffset(one.offset))
        )

    def _source_of(self, partition: TopicPartition) -> TopicPartition | None:
        if not self._back:
            return partition
        topic = self._topology.source_topic(partition.topic)
        return None if topic is None else TopicPartition(topic, partition.partition)


def _nearer(one: TranslatedOffset, place: GroupPlace | None) -> TranslatedOffset:
    if place is None or place.offset is None or one.found is None:
        return one
    return replace(one, found=one.found._replace(offset=cast(Any, place.offset), exact=place.exact))
