"""Translates committed offsets of a flow on the driver: exactly for copies by twinlog, otherwise by offset syncs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.mirror.offsets.exact_map import ExactMap, Point, Translated
from twinlog.mirror.offsets.map_store import MapStore
from twinlog.mirror.offsets.position_store import PositionStore
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.sync_history import OffsetPair, PartitionPlaces
from twinlog.mirror.offsets.sync_store import PlaceStore
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.types import AnyOffset, SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)

Here = TypeVar("Here", bound=int)
There = TypeVar("There", bound=int)


MISSING_S = 10.0
"""The longest rest before missing offset syncs are looked for again: only offsets outside of the map need them."""


class Translation(NamedTuple, Generic[AnyOffset]):
    """An offset on the other cluster; a group that continues there skips no record.

    With `exact` the group also repeats no record. `by` names the source of the translation: "map" is twinlog's exact
    map, "syncs" all offset syncs (`sync_history`). "start" is the start of a
    remote log that was recreated: it has no copy yet, and offsets of the earlier log may lie beyond its end.
    """

    offset: AnyOffset
    exact: bool
    by: Literal["map", "syncs", "start"] = "map"


class Translator:
    """The maps and syncs of a flow, kept up to date by `refresh`; threads may share it.

    `source` and `target` are connected to the flow's clusters. All facts come from topics, so answers are as new as the
    stored positions: by default at most two seconds old.
    """

    def __init__(
        self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, maps: MapStore | None = None
    ) -> None:
        here = source if settings.offset_syncs_location == "source" else target
        self._stored = maps or MapStore(settings, target, PositionStore(settings, target))
        self._maps, self._lock = self._stored.maps, self._stored.lock
        syncs = TopicReader(here, TopicName(settings.offset_syncs_topic), optional=True, missing_s=MISSING_S)
        self._syncs = PlaceStore(syncs, self._adds, self._lock)
        self.looked_at_syncs = False
        """Whether the maps lacked a translation of an offset; months of offset syncs take long to read."""
        self._need_syncs = False
        # Positions of another program may be in the earlier topic, and are ignored here.
        self._two_topics = settings.earlier_positions_topic not in (None, settings.positions_topic)
        self._logged = LogOnce(target.clock)
        self._flow = settings.name
        self._source = source
        self._target = target
        self._compared: dict[tuple[TopicName, str], tuple[frozenset[str], bool]] = {}
        """Remote topics whose known ids differ from the id in a position, by topic and that id: the known ids, and
        whether the topic was recreated since the position was stored."""

    def refresh(self) -> None:
        """Read the records that were stored since the last call; before the first call all offsets are untranslated.

        Raises ClusterError when a cluster is silent, and RefusedError if the login lacks READ on the topics of
        positions and maps. If the login lacks READ on offset syncs, only copies by twinlog are translated, which is
        logged once.
        """
        self._stored.read()
        if self._need_syncs:
            self.read_syncs()

    def positions(self) -> dict[TopicPartition, Position]:
        """The stored positions of the flow as of the last `refresh`."""
        return self._stored.positions()

    def refresh_maps(self) -> None:
        """Read only the maps, and so only the target. Raises as `refresh` does."""
        self._stored.read()

    def read_syncs(self) -> None:
        """Read offset syncs that were written since the last call. Raises ClusterError."""
        self.looked_at_syncs = self._need_syncs = True
        try:
            self._syncs.read()
        except RefusedError as error:
            if self._logged.is_new("syncs"):
                log.warning("TW-GROUP-07: %s: only what twinlog has copied itself is translated: %s", self._flow, error)
            return
        self._need_syncs = False

    def _want_syncs(self, partition: TopicPartition, known: ExactMap | None) -> bool:
        """Read offset syncs if the maps lack an answer, or another program copied records after the end of a map.

        Returns whether that is so.
        """
        if known is None or self._two_topics or self._stored.overtaken(partition, known):
            if not self.looked_at_syncs:
                self.read_syncs()
            self._need_syncs = True
            return True
        return False

    def _adds(self, sync: OffsetSync) -> bool:
        """Whether a sync adds to the map: only these syncs may use the 64 places of a partition."""
        known = self._maps.map(sync.source)
        return known is None or not known.covers(sync.upstream, sync.downstream)

    def to_target(self, partition: TopicPartition, offset: SourceOffset) -> Translation[TargetOffset] | None:
        """The offset in the remote partition for a group that has committed `offset` in source partition `partition`.

        None if the partition is unknown, or only records after `offset` are known. An offset beyond the copies
        translates to the end of the copies, inexactly. In a remote topic that was recreated since the last copy every
        offset translates to the start, inexactly. Raises ClusterError, as do the methods below, when offset syncs are
        needed for the first time and are unreadable.
        """
        if self._is_recreated(partition):
            return Translation(TargetOffset(0), False, "start")
        return self._translate(partition, offset, _TO_TARGET)

    def by_map(self, partition: TopicPartition, offset: SourceOffset) -> Translation[TargetOffset] | None:
        """The same by the exact map alone, which needs no source; None if the partition lacks a map.

        Raises ClusterError if the target is silent.
        """
        if self._is_recreated(partition):
            return Translation(TargetOffset(0), False, "start")
        with self._lock:
            known = self._maps.map(partition)
            found = None if known is None else known.to_target(offset)
        return None if found is None else Translation(found.offset, found.exact)

    def _is_recreated(self, partition: TopicPartition) -> bool:
        """Whether the remote topic of a partition was deleted and created again since the last copy.

        The ids come from earlier answers of the target. Only an id that differs, and may be the older id, is compared
        by a request.
        """
        position = self._stored.position(partition)
        if position is None or position.remote_topic is None or position.remote_topic_id is None:
            return False
        topic, stored = TopicName(position.remote_topic), position.remote_topic_id
        ids = self._target.topic_ids(topic)
        if ids <= {stored}:
            return False
        compared, recreated = self._compared.get((topic, stored), (None, False))
        if compared != ids:
            present = self._target.call(self._target.client.refresh, [topic])[topic].topic_id
            recreated = present is not None and str(present) != stored
            self._compared[topic, stored] = self._target.topic_ids(topic), recreated
        return recreated

    def past_copies(self, partition: TopicPartition, offset: SourceOffset) -> TargetOffset | None:
        """A target offset after the copies of all records before `offset`; None beyond the exact map.

        A group with an inexact translation repeats no record from this target offset on.
        """
        if self._is_recreated(partition):
            return None
        with self._lock:
            known = self._maps.map(partition)
            return None if known is None else known.past_copies(offset)

    def to_source(self, partition: TopicPartition, offset: TargetOffset) -> Translation[SourceOffset] | None:
        """The offset in source partition `partition` for a group that has committed `offset` in the remote partition.

        None if the partition is unknown, or only records after `offset` are known.
        """
        return self._translate(partition, offset, _TO_SOURCE)

    def _translate(self, partition: TopicPartition, offset: Here, way: _Way[Here, There]) -> Translation[There] | None:
        with self._lock:
            known = self._maps.map(partition)
            found = None if known is None else way.by_map(known, offset)
            if found is not None and found.exact:
                return Translation(found.offset, True)
        if not self._want_syncs(partition, None if found is None else known) and found is not None:
            return Translation(found.offset, False)
        by_syncs = way.by_syncs(self._places(partition), offset)
        with self._lock:
            newest = self._syncs.newest(partition)
            ahead = newest is not None and known is not None and way.is_ahead(newest, known)
            first = None if known is None else way.there(known.points(0, 1)[0])
            return _best(None if found is None else found.offset, by_syncs, ahead=ahead, first=first)

    def _places(self, partition: TopicPartition) -> PartitionPlaces:
        """The places that the offset syncs of a partition prove.

        Syncs that go back may be of an earlier topic of the same name: the end of the source's log tells.
        """
        with self._lock:
            places, stored = self._syncs.find_places(partition)
        if stored:
            return places
        count = len(places)
        if places.goes_back and self._source.client.connected:
            with suppress(ClusterError):
                end = self._source.offsets([partition], latest=True).get(partition)
                places = places if end is None else places.before(end)
        with self._lock:
            self._syncs.store_places(partition, places, count)
        return places

    def synced_up_to(self, partition: TopicPartition) -> SourceOffset | None:
        """The offset after the newest offset sync of a source partition; None before the first sync.

        Syncs count once they were read.
        """
        if not self.looked_at_syncs:
            return None
        with self._lock:
            newest = self._syncs.newest(partition)
        return None if newest is None else SourceOffset(newest.source + 1)

    def has_partition(self, partition: TopicPartition) -> bool:
        """Whether the maps or the syncs have a source partition."""
        with self._lock:
            if self._maps.map(partition) is not None:
                return True
        self._want_syncs(partition, None)
        with self._lock:
            return self._syncs.newest(partition) is not None


@dataclass(frozen=True, slots=True)
class _Way(Generic[Here, There]):
    """A direction of translation, to the target or to the source.

    A direction has the translation by a map and by syncs, the test whether a sync is after the end of a map, and the
    offset of a point on the other cluster.
    """

    by_map: Callable[[ExactMap, Here], Translated[There] | None]
    by_syncs: Callable[[PartitionPlaces, Here], There | None]
    is_ahead: Callable[[OffsetPair, ExactMap], bool]
    there: Callable[[Point], There]


def _to_target_by_syncs(places: PartitionPlaces, offset: SourceOffset) -> TargetOffset | None:
    place = places.to_target(offset)
    return None if place is None else TargetOffset(place.least)


def _to_source_by_syncs(places: PartitionPlaces, offset: TargetOffset) -> SourceOffset | None:
    place = places.to_source(offset)
    return None if place is None else SourceOffset(place.least)


_TO_TARGET: _Way[SourceOffset, TargetOffset] = _Way(
    ExactMap.to_target,
    _to_target_by_syncs,
    lambda sync, known: sync.source >= known.next_source,
    lambda point: point.target,
)
_TO_SOURCE: _Way[TargetOffset, SourceOffset] = _Way(
    ExactMap.to_source,
    _to_source_by_syncs,
    lambda sync, known: sync.target >= known.next_target,
    lambda point: point.source,
)


def _best(
    by_map: There | None, by_syncs: There | None, *, ahead: bool, first: There | None
) -> Translation[There] | None:
    """The further of two answers that both skip no record.

    `first` is the first offset of the map. Beside an answer of the map, syncs count only when they are `ahead` of its
    end, because another program copied more records. Other syncs may be of an earlier generation of a topic.
    """
    if by_map is not None and (by_syncs is None or by_syncs <= by_map or not ahead):
        return Translation(by_map, False)
    if by_syncs is None:
        return None
    if by_map is None and first is not None:
        by_syncs = min(by_syncs, first)
    return Translation(by_syncs, False, "syncs")
