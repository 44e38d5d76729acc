"""Translates committed offsets of one flow on the driver: exactly where twinlog copied, else by offset syncs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Literal, NamedTuple

from twinlog.errors import RefusedError
from twinlog.kafka.admin import ClusterAdmin
from twinlog.kafka.topic_reader import TopicReader
from twinlog.offsets.keyed_topic import KeyedTopic
from twinlog.offsets.maps import MAX_POINTS, ExactMaps
from twinlog.offsets.segments import Tip, segments_topic
from twinlog.offsets.store import PositionStore
from twinlog.offsets.syncs import OffsetSync, decode_offset_sync
from twinlog.offsets.translate import UNTRANSLATABLE, MirrorTranslation
from twinlog.read.last import LastRecords, drained
from twinlog.settings import FlowSettings
from twinlog.types import TopicName, TopicPartition

log = logging.getLogger(__name__)

ALL_POINTS = 2_000_000
"""Points kept of all partitions together: about 50 MB."""

LEAST_POINTS = 1024
TIMEOUT_S = 15.0


class Translation(NamedTuple):
    """An offset on the other cluster: who goes on there skips nothing.

    With `exact` it also repeats nothing. `by` says what it was found by: "map" is twinlog's exact map, "syncs" the
    offset syncs, of which MirrorMaker 2's rules keep 64 for a partition.
    """

    offset: int
    exact: bool
    by: Literal["map", "syncs"] = "map"


class Translator:
    """What is known of one flow's offsets, kept up to date by `refresh`; may be used from several threads.

    `source` and `target` are connected to the flow's clusters. Everything is read from topics, so answers are as new
    as the stored positions, two seconds old by default at most.
    """

    def __init__(
        self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin, positions: PositionStore | None = None
    ) -> None:
        here = source if settings.offset_syncs_location == "source" else target
        self._target = target
        self._positions = positions or PositionStore(settings, target)
        self._own = KeyedTopic(target.client, segments_topic(settings.source), TIMEOUT_S, "joining maps of old offsets")
        self._segments = TopicReader(target, segments_topic(settings.source), optional=True)
        self._syncs = TopicReader(here, TopicName(settings.offset_syncs_topic), optional=True)
        self._news: LastRecords = {}
        """Segments that were read and not taken yet, because more of them follow."""
        self._maps = ExactMaps()
        self._mirror = MirrorTranslation()
        self._mirror.ready()
        self._need_syncs = True
        self._said = False
        self._flow = settings.name
        self._reading_maps = threading.Lock()
        self._reading_syncs = threading.Lock()
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """Read what was stored since the last call; before the first one nothing is known.

        Raises ClusterError when a cluster does not answer, RefusedError without READ on the topics of positions and
        maps. Without READ on offset syncs, what twinlog has not copied itself is not translated, and that is said once.
        """
        self.read_maps()
        with self._reading_syncs:
            # Where maps answer exactly, syncs are not needed.
            if not self._need_syncs:
                return
            try:
                for _, record in self._syncs.read():
                    sync = decode_offset_sync(record.key, record.value)
                    if sync is not None:
                        with self._lock:
                            self._add(sync)
            except RefusedError as error:
                if not self._said:
                    self._said = True
                    log.warning("%s: only what twinlog has copied itself is translated: %s", self._flow, error)
                return
            with self._lock:
                self._need_syncs = False

    def read_maps(self) -> None:
        """`refresh` without the offset syncs; asks nothing of the source."""
        with self._reading_maps:
            self._read_maps()

    def _read_maps(self) -> None:
        # In this order: a position that is newer than the map would end it too far.
        positions = self._positions.read_all()
        self._segments.read_last(self._news)
        with self._lock:
            self._maps.take((record.key, record.value) for record in drained(self._news))
            for partition, position in positions.items():
                if position.next_target is not None:
                    self._maps.reach(partition, position.next_source, position.next_target, life=position.life)

    def _add(self, sync: OffsetSync) -> None:
        known = self._maps.map(sync.source)
        if known is not None and known.covers(sync.upstream, sync.downstream):
            # Of those that tell nothing new, none is to take the place of one that does.
            return
        newest = self._mirror.newest(sync.source)
        if newest is not None and sync.downstream < newest.downstream:
            # The remote topic was made anew. MirrorMaker 2 would go on to translate into what is gone.
            self._mirror.forget(sync.source)
        self._mirror.add(sync)

    def to_target(self, partition: TopicPartition, offset: int) -> Translation | None:
        """Where a group goes on in the remote partition that has committed `offset` in source partition `partition`.

        None when nothing is known of that partition, or only of records behind `offset`. Beyond what was copied it is
        the end of the copies, and not exact.
        """
        with self._lock:
            known = self._maps.map(partition)
            found = None if known is None else known.to_target(offset)
            if found is not None and found.exact:
                return Translation(found.offset, True)
            # Beyond the end of a map, those read before tell whether another program went on.
            self._need_syncs |= found is None
            by_syncs = self._mirror.translate(partition, offset)
            if by_syncs == UNTRANSLATABLE:
                by_syncs = None
            newest = self._mirror.newest(partition)
            ahead = newest is not None and known is not None and newest.upstream >= known.next_source
            first = None if known is None else known.points(0, 1)[0].target
            return _best(None if found is None else found.offset, by_syncs, ahead=ahead, first=first)

    def to_source(self, partition: TopicPartition, offset: int) -> Translation | None:
        """Where a group goes on in source partition `partition` that has committed `offset` in the remote partition.

        None when nothing is known of that partition, or only of records behind `offset`.
        """
        with self._lock:
            known = self._maps.map(partition)
            found = None if known is None else known.to_source(offset)
            if found is not None and found.exact:
                return Translation(found.offset, True)
            self._need_syncs |= found is None
            by_syncs = self._mirror.translate_back(partition, offset)
            newest = self._mirror.newest(partition)
            ahead = newest is not None and known is not None and newest.downstream >= known.next_target
            first = None if known is None else known.points(0, 1)[0].source
            return _best(None if found is None else found.offset, by_syncs, ahead=ahead, first=first)

    def untidy(self) -> list[TopicPartition]:
        """Source partitions that `tidy` is to be called for."""
        with self._lock:
            return self._maps.untidy(self._max_points())

    def tidy(self, source_starts: Mapping[TopicPartition, int]) -> int:
        """Keep maps and their topic small: join old segments of partitions, given their first source offsets.

        Returns how many partitions it changed. Raises ClusterError, RefusedError without WRITE on the topic of maps.
        """
        changed = 0
        for partition, start in source_starts.items():
            with self._lock:
                records = self._maps.tidy(partition, source_start=start, max_points=self._max_points())
            if records:
                self._target.call(partial(self._own.append, records, at_once=True))
                changed += 1
        return changed

    def _max_points(self) -> int:
        return max(LEAST_POINTS, min(MAX_POINTS, ALL_POINTS // max(1, len(self._maps))))

    def knows(self, partition: TopicPartition) -> bool:
        """Whether anything is known of a source partition."""
        with self._lock:
            return self._maps.map(partition) is not None or self._mirror.newest(partition) is not None

    def tips(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Tip]:
        """The newest stored point of each partition that has one, as of the last `refresh`."""
        with self._lock:
            found = {partition: self._maps.tip(partition) for partition in partitions}
        return {partition: tip for partition, tip in found.items() if tip is not None}


def _best(by_map: int | None, by_syncs: int | None, *, ahead: bool, first: int | None) -> Translation | None:
    """The further of two answers that both skip nothing.

    `first` is where the map begins. Where the map has an answer, syncs count only when they are `ahead` of its end,
    because another program went on: others may be of an earlier life of one of the topics.
    """
    if by_map is not None and (by_syncs is None or by_syncs <= by_map or not ahead):
        return Translation(by_map, False)
    if by_syncs is None:
        return None
    if by_map is None and first is not None:
        by_syncs = min(by_syncs, first)
    return Translation(by_syncs, False, "syncs")
