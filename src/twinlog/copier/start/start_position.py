"""Finds the first offset of a granted partition: its stored position, its start rule, or the end of arrived records."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from twinlog.copier.proof.comparing import ProofDifference
from twinlog.copier.start.first_look import (
    TOGETHER,
    GrantedPartition,
    LogBounds,
    LogsAtRest,
    find_offset,
    log_starts,
    look,
    unreported,
)
from twinlog.copier.start.gap_check import GapCheck
from twinlog.copier.start.identical_position import IdenticalPositions
from twinlog.copier.start.log_reader import find_unverified
from twinlog.copier.start.stored_maps import KeyedSemaphore, StoredMaps
from twinlog.copier.start.translated_position import TranslatedPositions, topic_ids, translated
from twinlog.errors import ClusterError, DifferenceError, NoStartError, TwinlogError
from twinlog.kafka.admin.partition_states import producer_states
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.appends import Prepare
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.offsets import EARLIEST, LATEST
from twinlog.lease.messages import Grant
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.mirror.offsets.starts import AT_FIRST, StartSpec
from twinlog.model.types import SourceOffset, TargetOffset, TopicName, TopicPartition
from twinlog.settings.client import ConsumerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


async def first_offsets(
    source: ClusterClient, grants: Sequence[Grant], *, read_committed: bool, errors: dict[TopicPartition, int]
) -> dict[TopicPartition, SourceOffset]:
    """The start offsets of those partitions whose leaders answer; `errors` gets the error codes of other partitions.

    Asks each leader at most three times, for any number of partitions. Raises ClusterError and RefusedError.
    """
    by_place: dict[int | None, list[TopicPartition]] = defaultdict(list)
    found: dict[TopicPartition, SourceOffset] = {}
    for grant in grants:
        begin = _begin_of(source, grant)
        if begin.offset is not None:
            found[grant.source] = begin.offset
        else:
            by_place[begin.since_ms].append(grant.source)
    for since, partitions in by_place.items():
        # The end is read first: a record that is appended between the two requests is then copied and never skipped.
        ends: dict[TopicPartition, int] = {}
        if since is not None:
            ends = await source.list_offsets(partitions, LATEST, read_committed=read_committed, errors=errors)
        at = EARLIEST if since is None else since
        offsets = await source.list_offsets(
            partitions, at, read_committed=read_committed and since is not None, errors=errors
        )
        for partition, offset in offsets.items():
            if offset >= 0:
                found[partition] = SourceOffset(offset)
            elif partition in ends:
                found[partition] = SourceOffset(ends[partition])
    return found


def _begin_of(source: ClusterClient, grant: Grant) -> StartSpec:
    """The start rule of a partition: its first record if the topic was recreated since the rule was chosen."""
    known = source.topic(grant.source.topic)
    now = None if known is None or known.topic_id is None else str(known.topic_id)
    return AT_FIRST if None not in (now, grant.topic_id) and now != grant.topic_id else grant.begin


AT_ONCE, OF_TWO_LEADERS = 8, 3
"""How many remote logs a copier reads at a time: in all, and with the same two leaders. Each read may take two answers
of `CHUNK_BYTES` in memory, and four answers of `LOOK_BYTES`."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """By source partition: its start position, or the error that prevents its start.

    `runs` are the records found on the target after the granted position. `differences` are the first records of other
    programs among them, for proven topics. For these topics `opened` has the first offset of each transaction on the
    target that was open before the start position, by producer id; a partition with an error has its transactions, too.
    """

    positions: dict[TopicPartition, Position]
    errors: dict[TopicPartition, TwinlogError]
    runs: dict[TopicPartition, list[CopiedRun]] = field(default_factory=dict)
    differences: dict[TopicPartition, DifferenceError] = field(default_factory=dict)
    opened: dict[TopicPartition, Mapping[int, TargetOffset]] = field(default_factory=dict)

    def joined(self, other: StartPosition) -> StartPosition:
        """The results for both groups of partitions."""
        return StartPosition(
            self.positions | other.positions,
            self.errors | other.errors,
            self.runs | other.runs,
            self.differences | other.differences,
            self.opened | other.opened,
        )


class StartPositions:
    """Turns grants into positions; asks each broker once for all partitions."""

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        settings: FlowSettings,
        event: Callable[[str, str], None],
        logs_at_rest: LogsAtRest,
        prepare_for: Callable[[Grant], Prepare | None] = lambda grant: None,
    ) -> None:
        """`prepare_for(grant)` returns the function that makes appends if a transform changes records, else None."""
        self._source = source
        self._target = target
        self._settings = settings
        gap_check = GapCheck(source, settings, event)
        self._identical = IdenticalPositions(source, target, gap_check)
        self._translated = TranslatedPositions(source, target, settings, event, gap_check, prepare_for)
        self._reading = KeyedSemaphore(source.loop, AT_ONCE, OF_TWO_LEADERS)
        self._maps = StoredMaps(target, segments_topic(settings.source))
        self._logs_at_rest = logs_at_rest

    async def refresh(self, grants: Sequence[Grant]) -> None:
        """Ask both clusters for the leaders of granted partitions, and begin to connect to them.

        Raises ClusterError.
        """
        # The requests run at the same time, because each request to a far cluster costs a round trip.
        known = self._source.loop.spawn(self._source.refresh, {grant.source.topic for grant in grants})
        # Maps and positions are stored next; separate requests for their leaders would each cost a round trip.
        own = (segments_topic(self._settings.source), TopicName(self._settings.positions_topic))
        await self._target.refresh({*own, *(grant.remote.topic for grant in grants)})
        await known
        self._source.open_for_data(grant.source for grant in grants)
        self._target.open_for_data(grant.remote for grant in grants)

    async def _refresh_soon(self, grants: Sequence[Grant]) -> None:
        known = self._source.loop.spawn(self._source.refresh_soon, {grant.source.topic for grant in grants})
        await self._target.refresh_soon({grant.remote.topic for grant in grants})
        await known

    def group_by_leader(self, grants: Sequence[Grant]) -> list[list[Grant]]:
        """Group grants by their brokers, so that a silent broker delays only its own partitions."""
        groups: dict[tuple[int | None, int | None], list[Grant]] = {}
        for grant in grants:
            groups.setdefault(self._leaders(grant), []).append(grant)
        return list(groups.values())

    def _leaders(self, grant: Grant) -> tuple[int | None, int | None]:
        leaders = self._source.leader(grant.source), self._target.leader(grant.remote)
        there, here = (None if leader is None else leader.node for leader in leaders)
        return there, here

    async def find_positions(self, grants: Sequence[Grant], *, refreshed: bool = False) -> StartPosition:
        """Return start positions of the grants that could be resolved now, and an error for each other grant.

        The caller tries grants again whose errors may pass. With `refreshed` the leaders are known, because `refresh`
        has just asked for them. Raises ClusterError if all grants are concerned, and RefusedError for a permission that
        is missing for any grant.
        """
        if not refreshed:
            await self._refresh_soon(grants)
        opened, unlisted = await self._find_opened(grants)
        kept = {grant.source for grant in grants if self._settings.keeps_offsets(grant.source.topic)}
        fresh = [grant for grant in grants if _begins(grant, keeps=grant.source in kept)]
        asked = {grant.source for grant in fresh}
        committed = self._settings.consumer.isolation_level == "read_committed"
        source_codes: dict[TopicPartition, int] = {}
        target_codes: dict[TopicPartition, int] = {}

        async def places() -> dict[TopicPartition, SourceOffset]:
            return await first_offsets(self._source, fresh, read_committed=committed, errors=source_codes)

        first = self._source.loop.spawn(places) if fresh else None
        # The end of a log with kept offsets is its position, even if a stored position is missing.
        resting = {one.source for one in grants if not one.drained and (one.position is not None or one.source in kept)}
        late = [grant.remote for grant in grants if grant.source in resting]
        others = [grant.remote for grant in grants if grant.source not in resting]
        ends = _on_target(await self._target.list_offsets(others, LATEST, errors=target_codes))
        if late:
            ends.update(await self._logs_at_rest.find_ends(late))
        # Before these ends a transaction may have begun since the first look, and after them a transaction may end.
        present, hidden = await self._find_opened(grants)
        unverified, errors = await self._find_unverified(grants, kept, ends)
        errors |= unlisted | hidden
        starts: dict[TopicPartition, SourceOffset] = {} if first is None else await first
        resolved = StartPosition({}, {})
        for grant in grants:
            if transactions := present.get(grant.remote, {}) | opened.get(grant.remote, {}):
                resolved.opened[grant.source] = transactions
        behind: list[GrantedPartition] = []
        keeping: list[tuple[Grant, TargetOffset]] = []
        for grant in grants:
            end = ends.get(grant.remote)
            if grant.remote in errors:
                resolved.errors[grant.source] = ClusterError(
                    f"cluster {self._target.alias}: {grant.remote} does not report what it holds: "
                    f"{errors[grant.remote]}"
                )
            for client, partition in ((self._source, grant.source), (self._target, grant.remote)):
                if client.leader(partition) is None:
                    resolved.errors.setdefault(grant.source, _leaderless(client, partition))
            if end is None and grant.source in resting:
                resolved.errors.setdefault(grant.source, self._logs_at_rest.error_of(grant.remote))
            elif end is None or grant.remote in errors or grant.remote not in unverified:
                resolved.errors.setdefault(grant.source, unreported(self._target, grant.remote, target_codes))
            elif self._source.leader(grant.source) is None:
                continue
            elif grant.source in asked and grant.source not in starts:
                resolved.errors[grant.source] = unreported(self._source, grant.source, source_codes)
            elif grant.position is None and grant.begin.refused:
                resolved.errors[grant.source] = self._no_place(grant.source)
            elif grant.source in kept:
                keeping.append((grant, end))
            elif grant.position is None:
                resolved.positions[grant.source] = self._translated.begin(grant, starts[grant.source], end)
            elif self._lacks_marker(grant.remote, grant.position, end):
                resolved.errors[grant.source] = ClusterError(
                    f"cluster {self._target.alias}: {grant.remote} lacks the marker of its last transaction, which may "
                    "be on its way"
                )
            else:
                position = translated(grant.position, end)
                behind.append(GrantedPartition(grant, position, end, unverified[grant.remote]))
        maps, failed = await self._stored_maps({one.grant.source: one.position for one in behind if one.in_doubt})
        groups = self._together([one._replace(known=maps.get(one.grant.source)) for one in behind])

        async def begin(some: Sequence[GrantedPartition]) -> None:
            logs, fault = await look(self._source, self._target, some, read_committed=committed)
            for one in some:
                here = one.grant.source
                try:
                    if failed is not None and one.in_doubt:
                        raise failed
                    if fault is not None and (one.in_doubt or one.has_arrived):
                        raise fault
                    found = await self._translated.find_position(one, logs.pop(here, None))
                    resolved.positions[here], resolved.runs[here] = found.position, found.runs
                    if found.opened and self._settings.proves(here.topic):
                        resolved.opened[here] = {**found.opened, **resolved.opened.get(here, {})}
                    foreign = found.first_foreign(resolved.opened.get(here, {}))
                    if foreign is not None and self._settings.proves(here.topic):
                        difference = ProofDifference("foreign", foreign.source, foreign.target)
                        resolved.differences[here] = difference.as_error(here, one.grant.remote)
                except TwinlogError as error:
                    # The traceback would hold this frame, and so the error itself.
                    resolved.errors[here] = error.with_traceback(None)

        async def begin_kept(grant: Grant, end: TargetOffset) -> None:
            try:
                async with self._reading.make_permit(self._leaders(grant)):
                    resolved.positions[grant.source] = await self._identical.find_position(
                        grant, end, starts.get(grant.source), *topic_ids(self._source, self._target, grant)
                    )
            except TwinlogError as error:
                resolved.errors[grant.source] = error.with_traceback(None)

        async def work() -> None:
            while groups:
                some = groups.popleft()
                async with self._reading.make_permit(self._leaders(some[0].grant)):
                    await begin(some)

        loop = self._target.loop
        await loop.gather(
            [
                *(loop.spawn(work) for _ in range(min(OF_TWO_LEADERS, len(groups)))),
                *(loop.spawn(begin_kept, grant, end) for grant, end in keeping),
            ]
        )
        return resolved

    def _together(self, behind: Sequence[GrantedPartition]) -> deque[list[GrantedPartition]]:
        """Groups of partitions that are read in the same requests.

        The partitions of a group have the same leaders. Leaders may have moved since the first grouping.
        """
        by_source = {one.grant.source: one for one in behind}
        groups: deque[list[GrantedPartition]] = deque()
        for grants in self.group_by_leader([one.grant for one in behind]):
            some = [by_source[grant.source] for grant in grants]
            size = min(TOGETHER, -(-len(some) // OF_TWO_LEADERS))
            groups.extend(some[at : at + size] for at in range(0, len(some), size))
        return groups

    async def _find_opened(
        self, grants: Sequence[Grant]
    ) -> tuple[dict[TopicPartition, dict[int, TargetOffset]], dict[TopicPartition, str]]:
        """The first offset of each open transaction in the remote logs of proven topics, by producer id.

        The second result has the reason for each partition whose transactions are unknown. Raises ClusterError.
        """
        proven = [one.remote for one in grants if self._settings.proves(one.source.topic) and not one.heartbeats]
        if not proven:
            return {}, {}
        states, errors = await producer_states(self._target, proven)
        return {
            remote: {one.producer_id: TargetOffset(one.first_offset) for one in producers if one.in_transaction}
            for remote, producers in states.items()
        }, errors

    async def _find_unverified(
        self, grants: Sequence[Grant], kept: Set[TopicPartition], ends: Mapping[TopicPartition, TargetOffset]
    ) -> tuple[dict[TopicPartition, bool], dict[TopicPartition, str]]:
        """Whether a remote log may hold other records than its position counts; the reason if that is unknown."""
        # A drained partition was checked at its release, once all its appends were answered.
        counted = {
            grant.remote: grant.position
            for grant in grants
            if not grant.drained
            and grant.source not in kept
            and grant.position is not None
            and grant.position.next_target is not None
            and ends.get(grant.remote, -1) >= grant.position.next_target
        }
        found = {grant.remote: False for grant in grants if grant.remote not in counted}
        if not counted:
            return found, {}
        unverified, errors = await find_unverified(self._target, counted, ends)
        return found | unverified, errors

    async def _stored_maps(
        self, positions: Mapping[TopicPartition, Position]
    ) -> tuple[Mapping[TopicPartition, ExactMap], ClusterError | None]:
        """The maps of partitions up to their positions, or the error that prevents the read."""
        try:
            return (await self._maps.read(positions) if positions else {}), None
        except ClusterError as error:
            return {}, error

    async def after_what_is_left(self, grant: Grant, end: TargetOffset, next_source: SourceOffset) -> Position:
        """The position at which a partition continues after its remote log lost acknowledged records.

        The log kept its records up to `end`, and then took new records. In a recreated remote topic the partition
        continues after the last append, at source offset `next_source`; the records of the former topic are not copied
        again. Raises ClusterError.
        """
        await self._refresh_soon([grant])
        position, remote_id = grant.position, topic_ids(self._source, self._target, grant)[1]
        next_target = TargetOffset(await find_offset(self._target, grant.remote, LATEST))
        assert position is not None
        assert position.next_target is not None
        if await self._translated.is_recreated(grant, position, remote_id):
            found = replace(position, next_source=next_source, remote_topic_id=remote_id)
        else:
            maps = await self._maps.read({grant.source: position})
            async with self._reading.make_permit(self._leaders(grant)):
                one = GrantedPartition(grant, position, end, known=maps.get(grant.source))
                logs = LogBounds(*await log_starts(self._source, self._target, grant), end)
                found = await self._translated.find_lost(one, position, logs) or position
        return replace(found, next_target=next_target)

    def _lacks_marker(self, remote: TopicPartition, position: Position, end: TargetOffset) -> bool:
        transactional = self._settings.exactly_once != "disabled"
        return transactional and self._logs_at_rest.lacks_marker(remote, position.next_target, end)

    def _no_place(self, partition: TopicPartition) -> NoStartError:
        return NoStartError(
            f"the consumer of {self._settings.source} has {key_of(ConsumerSettings, 'auto_offset_reset')} = none, and "
            "no position is stored for this partition",
            way_out="set earliest or latest, or twinlog.start for its topic",
        )


def _begins(grant: Grant, *, keeps: bool) -> bool:
    """Whether the start rule decides the first source offset of a partition; `keeps` tells whether it keeps offsets."""
    if grant.position is None:
        return not grant.begin.refused
    return keeps and grant.position.kept_from is None


def _leaderless(client: ClusterClient, partition: TopicPartition) -> ClusterError:
    known = client.topic(partition.topic)
    if known is not None and error_codes.refused(known.error):
        return client.lacks("DESCRIBE", f"topic {partition.topic}", "finding its leaders")
    return ClusterError(f"cluster {client.alias}: {partition} has no leader")


def _on_target(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, TargetOffset]:
    """Target offsets from an answer, with their type."""
    return {partition: TargetOffset(offset) for partition, offset in offsets.items()}
