"""Keeps flows from conflicting: cycles are prevented, and each remote topic has a single writing flow.

Under the identity policy, a topic on two sources has a single remote topic, and two flows would mix the records of both
sources in it. Two connectors of a Connect worker may mirror the same topic of a source, and would copy each record
twice. The choice of the writer must be independent of the order in which flows start. The flow that has already copied
the topic writes it; otherwise the flow that comes first in the file. Each flow finds the writer by itself, also across
processes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from twinlog.errors import ClusterError, ConfigError, TwinlogError
from twinlog.kafka.admin.cluster import ClusterAdmin, Connect
from twinlog.mirror.offsets.position_store import PositionStore, StoredPositions
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topology.cycles import TopicCycle, echo, places_of, returning
from twinlog.mirror.topology.filters import share_no_name
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.types import TopicName, TopicPartition
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of
from twinlog.worker.topics.route_cycles import RoutedFlow, known_route, round_trip, routed_flow

log = logging.getLogger(__name__)

FIRST_LOOK_S = 6.0
"""The time for which a flow waits at its start for the topics that a conflicting flow mirrors."""

LOOK_S = 30.0


def may_meet(flow: FlowSettings, other: FlowSettings) -> bool:
    """Whether two flows could write to the same remote topic.

    Under the default policy, different aliases of the sources keep the remote topics apart, unless a separator is
    empty. Even then the flows may meet if both read the same cluster and a route may drop the alias. Only connectors
    may share both clusters with another flow.
    """
    return (
        _share_target(flow, other)
        and flow.name != other.name
        and other.enabled
        and (
            flow.source_name == other.source_name
            or not (_tells_sources_apart(flow) and _tells_sources_apart(other))
            or ((_may_route(flow) or _may_route(other)) and _share_source(flow, other))
        )
    )


def _share_target(flow: FlowSettings, other: FlowSettings) -> bool:
    # Connectors to several clusters may use the default alias `target` for each of them.
    one_file = flow.kind is None and flow.target == other.target
    return one_file or flow.target_admin.client.shares_servers(other.target_admin.client)


def _share_source(flow: FlowSettings, other: FlowSettings) -> bool:
    return flow.source_admin.client.shares_servers(other.source_admin.client)


def _tells_sources_apart(flow: FlowSettings) -> bool:
    return flow.policy == "default" and bool(flow.separator)


def _may_route(flow: FlowSettings) -> bool:
    return flow.transform is not None and flow.transform.smts is not None


def have_topics_apart(flow: FlowSettings, other: FlowSettings) -> bool:
    """Whether two flows surely have no mirrored topic in common, for example connectors for the topics of two teams."""
    return (
        (flow.source_name, flow.policy, flow.separator) == (other.source_name, other.policy, other.separator)
        and flow.policy != "custom"
        and flow.topic_filter_class is None is other.topic_filter_class
        and share_no_name(flow.topics, other.topics)
    )


def first_to_write(flow: int, other: int, *, copied: bool, other_copied: bool) -> bool:
    """Whether `flow` may write a topic that both flows mirror; `flow` and `other` are their ranks in the file."""
    return copied if copied != other_copied else flow < other


class TopicConflicts:
    """The conflicts of a flow with the other flows of the file."""

    def __init__(
        self,
        flow: FlowSettings,
        flows: Sequence[FlowSettings],
        target: ClusterAdmin,
        positions: StoredPositions,
        connect: Connect = ClusterAdmin,
    ) -> None:
        self._flow = flow
        self._topology = topology_of(flow)
        known = _topologies(flow, flows)
        topologies = {other.name: topology for other, topology in known}
        self._all = [topology for _, topology in known]
        self._routed = _routed(known)
        self._route = routed_flow(flow, self._topology)
        self._places = places_of(flows)
        self._own_route: Callable[[TopicName], TopicName] | None = None
        """The flow's route for records, if its own two clusters are the same."""
        self._own_rank = next((rank for rank, other in enumerate(flows) if other.name == flow.name), 0)
        self._target = target
        self._positions = positions
        self._conflicts = [
            _Conflict(rank, other, topologies[other.name], flow, target, connect)
            for rank, other in enumerate(flows)
            if other.name in topologies and may_meet(flow, other)
        ]
        self._returns: dict[TopicName, TopicCycle | None] = {}
        self._earlier: Mapping[TopicName, TopicCycle | None] = {}

    def within_one_cluster(self) -> None:
        """Note that the flow's own two clusters are the same."""
        self._places = self._places.joined(self._flow.source, self._flow.target)
        self._own_route = known_route(self._flow)
        self._returns, self._earlier = {}, {}

    def from_target(self, pairs: Sequence[TopicPair]) -> dict[TopicName, str]:
        """Source topics that came from the target by another flow's naming, each with the reason.

        Called at each refresh: the results of topics that were last looked up before the previous call are forgotten.
        """
        self._earlier, self._returns = self._returns, {}
        found = {}
        for name in (pair.source.name for pair in pairs):
            back = self._returning(name)
            if back is not None and back.brought_by is not None:
                by = back.brought_by
                found[name] = f"it came from the target cluster {self._flow.target}, as {by.name} names its copies"
        return found

    def lacks_original(self, topic: TopicName, remotes: Container[TopicName]) -> bool:
        """Whether a topic of `from_target` only looks like a copy: the original is missing on the target.

        False also if the copy would have come over a third cluster, because only the target is searched.
        """
        back = self._returning(topic)
        by = None if back is None else back.brought_by
        return by is not None and by.source == self._flow.target and by.source_topic(topic) not in remotes

    def name_heartbeats(self, topic: TopicName) -> bool:
        """Whether a flow of the file, this flow included, gives this name to heartbeats."""
        return any(one.is_heartbeats(topic) for one in self._all)

    def refusals(self, pairs: Sequence[TopicPair], remotes: Container[TopicName]) -> dict[TopicName, str]:
        """The reasons why the flow must leave out source topics, by topic; `remotes` are the topics of the target.

        Raises ClusterError.
        """
        found: dict[TopicName, str] = {}
        for name in (pair.source.name for pair in pairs):
            reason = self._cycle(name) or self._echo(name, remotes) or self._round_trip(name) or self._routed_back(name)
            if reason is not None:
                found[name] = reason
        for conflict in self._conflicts:
            found.update(self._lost_to(conflict, [pair for pair in pairs if pair.source.name not in found]))
        return found

    def reports_a_cycle(self, topic: TopicName, remotes: Container[TopicName]) -> bool:
        """Whether the flow must leave out a source topic of this name because its copies would return in a cycle."""
        return (
            self._returning(topic) is not None
            or echo(self._topology, topic, remotes) is not None
            or self._round_trip(topic) is not None
            or self._routed_back(topic) is not None
        )

    def close(self) -> None:
        for conflict in self._conflicts:
            conflict.close()

    def _cycle(self, topic: TopicName) -> str | None:
        back = self._returning(topic)
        if back is None or back.brought_by is not None:
            return None
        flows = ", ".join(flow.name for flow in back.way)
        return f"the flows {flows} would copy it in a cycle for ever; let `topics` of any of them leave it out"

    def _echo(self, topic: TopicName, remotes: Container[TopicName]) -> str | None:
        reason = echo(self._topology, topic, remotes)
        if reason is None:
            return None
        separator, policy, topics = (key_of(FlowSettings, name) for name in ("separator", "policy", "topics"))
        return (
            f"{reason}, and would be copied in a cycle for ever; use the same {separator} and the same {policy} for "
            f"both directions, or, if it is a topic of its own, write its name in `{topics}`"
        )

    def _round_trip(self, topic: TopicName) -> str | None:
        way: tuple[str, ...] = ()
        if self._routed and self._route is not None:
            way = round_trip(self._route, topic, self._routed, self._places)
        if not way:
            return None
        return (
            f"the flows {', '.join(way)} would route it round for ever (transforms); let `topics` of any of them "
            "leave out what is routed to it"
        )

    def _routed_back(self, topic: TopicName) -> str | None:
        """Within a single cluster, the flow must never read the records that it routed to another topic."""
        if self._own_route is None or self._topology.is_heartbeats(topic):
            return None
        remote = self._topology.copy_of(topic)
        if remote is None:
            return None
        there = self._own_route(remote)
        if there == remote or not self._topology.mirrors(there):
            return None
        return (
            f"the flow routes it to {there} (transforms), a topic of the same cluster that it mirrors as well, and "
            f"would copy it again; let `{key_of(FlowSettings, 'topics')}` leave out what is routed to"
        )

    def _returning(self, topic: TopicName) -> TopicCycle | None:
        known = self._returns if topic in self._returns else self._earlier
        found = known[topic] if topic in known else returning(self._topology, topic, self._all, self._places)
        self._returns[topic] = found
        return found

    def _lost_to(self, conflict: _Conflict, pairs: Sequence[TopicPair]) -> dict[TopicName, str]:
        theirs = self._contested(conflict, pairs)
        if not theirs:
            return {}
        contested = [pair for pair in pairs if pair.source.name in theirs]
        parts = [TopicPartition(pair.source.name, part) for pair in contested for part in range(pair.source.partitions)]
        copied = {part.topic for part in self._positions.read(parts)}
        their_copied = conflict.copied()
        lost = {}
        for pair in contested:
            other = theirs[pair.source.name]
            if not first_to_write(
                self._own_rank,
                conflict.rank,
                copied=pair.source.name in copied,
                other_copied=other in their_copied,
            ):
                lost[pair.source.name] = self._reason(conflict, pair, other)
        return lost

    def _contested(self, conflict: _Conflict, pairs: Sequence[TopicPair]) -> dict[TopicName, TopicName]:
        """Source topics that a single flow of two may copy, each with the competing source topic of the other flow."""
        named = conflict.sources_of(pairs)
        found = {pair.source.name: named[pair.remote] for pair in pairs if pair.remote in named}
        if conflict.same_source:
            # Routes may lead two flows to the same topic although their policies name copies differently.
            found |= {name: name for pair in pairs if self._meet(conflict, pair, name := pair.source.name)}
        elif conflict.source != self._flow.source:
            return found
        by_name = {pair.source.name: pair for pair in pairs}
        return {name: other for name, other in found.items() if self._meet(conflict, by_name[name], other)}

    def _meet(self, conflict: _Conflict, pair: TopicPair, other: TopicName) -> bool:
        """Whether, by all that is known, both flows would write each record to the same remote topic.

        The records are of this flow's topic in `pair` and of the other flow's topic `other`.
        """
        here = self._route
        return (
            here is not None
            and here.route(pair.remote) == conflict.destination(other)
            # Heartbeats are records of twinlog or MirrorMaker 2; either flow may be monitored by them.
            and not pair.heartbeats
        )

    def _reason(self, conflict: _Conflict, pair: TopicPair, other: TopicName) -> str:
        remote = pair.remote if self._route is None else self._route.route(pair.remote)
        to = f"to the same topic {remote} of {self._flow.target}"
        if conflict.same_source and other == pair.source.name:
            own = self._flow.name
            return (
                f"{conflict.name} copies it {to}, and each record would be there twice; let `topics` of {own} leave it "
                f"out: if {conflict.name} left it out, or were removed, {own} would begin anew, unless its offsets are "
                f"altered to those of {conflict.name} before"
            )
        return (
            f"{conflict.name} copies {other} of {conflict.source} {to}, and the records of both would mix; let "
            "`topics` of either flow leave it out, or rename remote topics with the default "
            f"{key_of(FlowSettings, 'policy')}"
        )


_REFUSAL_IDS = (
    ("in a cycle for ever; let", "TW-TOPIC-01"),
    ("would route it round for ever", "TW-TOPIC-01"),
    ("the flow routes it to", "TW-TOPIC-04"),
    ("to the same topic", "TW-TOPIC-03"),
)


def refusal_id(reason: str) -> str:
    """The message id of a reason of `TopicConflicts.refusals`."""
    return next((message_id for words, message_id in _REFUSAL_IDS if words in reason), "TW-TOPIC-02")


def _topologies(flow: FlowSettings, flows: Sequence[FlowSettings]) -> list[tuple[FlowSettings, Topology]]:
    found = []
    for other in flows:
        if other.enabled:
            try:
                found.append((other, topology_of(other)))
            except ConfigError as error:
                # A class that only the host of that flow has.
                log.warning(
                    "TW-TOPIC-18: %s: cycles and conflicts with %s cannot be seen: %s", flow.name, other.name, error
                )
    return found


def _routed(flows: Sequence[tuple[FlowSettings, Topology]]) -> list[RoutedFlow]:
    """The flows with known routes; an empty list if every flow is without SMTs."""
    if not any(_may_route(one) for one, _ in flows):
        return []
    return [found for one, topology in flows if (found := routed_flow(one, topology)) is not None]


class _Conflict:
    """A flow that may write to the same remote topics; a thread reads the topics of its source.

    The source may be unreachable.
    """

    def __init__(
        self,
        rank: int,
        settings: FlowSettings,
        topology: Topology,
        beside: FlowSettings,
        target: ClusterAdmin,
        connect: Connect,
    ) -> None:
        self._connect = connect
        self.rank = rank
        self.name = settings.name
        self.source = settings.source
        self._settings = settings
        self._topology = topology
        self._route = routed_flow(settings, topology)
        self.same_source = _share_source(settings, beside)
        """Whether both flows read the same cluster, so that a topic name means the same topic in both flows."""
        self._target = target
        self._positions = PositionStore(settings, target)
        self._topics: frozenset[TopicName] | None = None
        self._admin: ClusterAdmin | None = None
        self._looked = threading.Event()
        self._stopping = threading.Event()
        self._logged = LogOnce(target.clock)
        self._thread = threading.Thread(target=self._look, name=f"conflicts {settings.name}", daemon=True)

    def sources_of(self, pairs: Sequence[TopicPair]) -> Mapping[TopicName, TopicName]:
        """The other flow's source topics by remote name, if a pair of this flow has the same remote topic.

        Until the source of the other flow has answered, the result has the topics that the other flow has copied.
        Raises ClusterError.
        """
        remotes = {pair.remote for pair in pairs}
        topics: Iterable[TopicName]
        if self.same_source:
            topics = {pair.source.name for pair in pairs}
        else:
            if self._admin is None:
                self._begin()
            self._target.clock.wait(self._looked, FIRST_LOOK_S)
            topics = self.copied() if self._topics is None else self._topics
        return {remote: topic for topic in topics if (remote := self._topology.copy_of(topic)) in remotes}

    def destination(self, topic: TopicName) -> TopicName | None:
        """The remote topic to which the other flow writes the records of a source topic.

        None if the flow has no remote topic for it, or if only the records decide the remote topic.
        """
        remote = self._topology.copy_of(topic)
        return None if remote is None or self._route is None else self._route.route(remote)

    def _begin(self) -> None:
        try:
            self._admin = self._connect(self._settings.source, self._settings.source_admin.client)
            self._thread.start()
        except RuntimeError as error:
            admin, self._admin = self._admin, None
            if admin is not None:
                admin.close()
            raise ClusterError(f"the topics of {self._settings.source} cannot be looked at yet: {error}") from error

    def copied(self) -> set[TopicName]:
        """Source topics that the other flow has stored positions of. Raises ClusterError."""
        if TopicName(self._settings.positions_topic) not in self._target.topics():
            return set()
        return {part.topic for part in self._positions.read_all()}

    def close(self) -> None:
        self._stopping.set()
        self._looked.set()
        if self._admin is not None:
            self._admin.close()
            self._thread.join(1.0)

    def _look(self) -> None:
        connected, admin = False, self._admin
        assert admin is not None
        while not self._stopping.is_set():
            try:
                if not connected:
                    admin.connect()
                    connected = True
                self._topics = frozenset(admin.topics())
                self._logged.end_condition(self.source)
            except TwinlogError as error:
                if not self._stopping.is_set() and self._logged.is_due(self.source):
                    log.warning(
                        "TW-TOPIC-19: %s: whether it mirrors the same topics cannot be seen now: %s", self.name, error
                    )
            self._looked.set()
            self._target.clock.wait(self._stopping, self._settings.refresh_topics_interval_s or LOOK_S)
