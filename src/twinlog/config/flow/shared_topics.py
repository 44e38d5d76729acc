"""Topics that a file asks to copy in a way that leaves records out: problems of several flows together.

A flow that keeps the names of topics recognises a copy only by its position. Two directions between the same clusters,
or a ring of flows, would copy such a topic in a cycle for ever: MirrorMaker 2 does so, and twinlog leaves the topic out
in every flow of the cycle. Two sources that keep names for the same target have a single remote topic: MirrorMaker 2
mixes their records, and twinlog copies the topic from a single source. A file says too little about the topics of a
cluster, so names are tried that the lists of the flows probably mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from twinlog.config.properties import PropertyEntry
from twinlog.config.text.precedence import FlowLayers
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, Mistake, MistakeKind
from twinlog.mirror.topology.cycles import TopicCycle, cycle, returning
from twinlog.mirror.topology.filters import share_no_name
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.topic_names import HEARTBEATS
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

_NAMING = ("replication.policy.class", "replication.policy.separator", "source.cluster.alias")
_DECIDE = (*_NAMING, "topics", "topics.exclude", "topics.blacklist", "topic.filter.class")
"""The settings that decide which topics a flow copies, and to which names."""

_ANY = "orders"
_SHOWN = 4
SHARED_TOPICS = "twinlog.shared.topics"


def keeping(one: FlowSettings, other: FlowSettings) -> str:
    """The reason why two flows keep names."""
    kept = "identity" in {one.policy, other.policy}
    return "identity policy" if kept else "an empty separator and an empty source.cluster.alias"


@dataclass(frozen=True, slots=True)
class SharedTopics:
    """Looks for such topics among the enabled flows of `file`.

    `layers` are the layers of the flows, by `source->target`.

    With `first_writes` the user accepts that a remote topic of two sources is copied from a single source; None if the
    file has no such key.
    """

    file: str
    flows: Sequence[FlowSettings]
    layers: Mapping[str, FlowLayers]
    first_writes: bool | None = None

    def find(self, wrong: Sequence[ConfigProblem]) -> list[Mistake]:
        """The problems, and a warning for each pair of flows with lists that may or may not overlap.

        `wrong` are known problems: flows whose topics or names are wrong are left out.
        """
        lines = {(problem.file, problem.line) for problem in wrong}
        rules = {flow.name: rule for flow in self.flows if (rule := self._rule(flow, lines)) is not None}
        found: list[Mistake] = []
        for one, other in combinations([flow for flow in self.flows if flow.name in rules], 2):
            both = (rules[one.name], rules[other.name])
            if (one.source, one.target) == (other.target, other.source):
                found += self._both_ways(one, other, *both)
            elif (
                one.target == other.target and one.keeps_names and other.keeps_names and not self._may_share(one, other)
            ):
                found += self._one_topic(one, other, *both)
        return [*found, *self._cycles([*rules.values()])]

    def _may_share(self, one: FlowSettings, other: FlowSettings) -> bool:
        """Whether the first of two sources may write a topic: its offsets could then be those of either source."""
        return bool(self.first_writes) and not (one.may_keep_offsets or other.may_keep_offsets)

    def _rule(self, flow: FlowSettings, wrong: set[tuple[str, int | None]]) -> Topology | None:
        layer = self.layers[_ends(flow)].connector
        entries = [layer[name] for name in _DECIDE if name in layer]
        if any(entry.unresolved is not None or (entry.file, entry.line) in wrong for entry in entries):
            return None
        try:
            return topology_of(flow)
        except ConfigError:
            # The class exists only on that flow's host, or the problem is reported elsewhere.
            return None

    def _both_ways(self, one: FlowSettings, other: FlowSettings, rule: Topology, back: Topology) -> list[Mistake]:
        if not (one.keeps_names or other.keeps_names):
            return []
        if one.keeps_names and other.keeps_names:
            both = _common(rule, back)
            if both:
                text = (
                    f"flows {one.name} and {other.name} both mirror {listed(both)} and keep the name "
                    f"({keeping(one, other)}): MirrorMaker 2 would copy each record to and fro for ever, and twinlog "
                    "copies these topics in neither direction"
                )
                sides = f"for example {one.source}-.* and {other.source}-.*"
                expected = (
                    f"topics that differ, {sides}, or enable a single direction with {other.written_as('enabled')} = "
                    "false, or leave out the settings that keep names"
                )
                return [self._problem(other, text, expected, MistakeKind.BOTH_WAYS)]
            if _are_apart(one, other):
                return []
        text = (
            f"flows {one.name} and {other.name}: as topic names are kept ({keeping(one, other)}), a topic that both "
            "mirror would be copied in a cycle for ever and is left out by both; keep `topics` of the two apart"
        )
        entry = self._entry(other)
        return [ConfigWarning(entry.file, entry.line, entry.key, text, kind=MistakeKind.BOTH_WAYS)]

    def _one_topic(self, one: FlowSettings, other: FlowSettings, rule: Topology, beside: Topology) -> list[Mistake]:
        both = _common(rule, beside)
        if not both:
            return []
        text = (
            f"flows {one.name} and {other.name} both write {listed(both)} on {one.target}, because topic names are "
            f"kept ({keeping(one, other)}): twinlog copies a remote topic from a single source, as offsets of two "
            "sources have no order in it"
        )
        expected = (
            "topics that differ, or leave out the settings that keep names"
            if self.first_writes is None
            else "topics that differ, or leave out the settings that keep names; if the two clusters have no topic in "
            f"common, write {SHARED_TOPICS} = first"
        )
        return [self._problem(other, text, expected, MistakeKind.SAME_TOPIC)]

    def _cycles(self, rules: Sequence[Topology]) -> list[Mistake]:
        """Topics of flows that name remote topics differently, and rings of flows that keep names."""
        found: list[Mistake] = []
        reported: set[frozenset[str]] = set()
        for rule in rules:
            for topic in _samples(rule):
                back = _cycle(rule, topic, rules)
                if back is None:
                    continue
                among = frozenset(one.name for one in back.way)
                kept = any(one.keeps_names for one in back.way)
                if among in reported or (kept and len(among) == 2):
                    continue
                reported.add(among)
                found.append(self._in_cycle(back, topic))
        return found

    def _in_cycle(self, back: TopicCycle, topic: TopicName) -> Mistake:
        names = [topic]
        for one in back.way:
            names.append(one.remote_name(names[-1]))
        entries = dict.fromkeys(
            entry
            for one in back.way
            for setting in _NAMING
            if (entry := self.layers[one.name].connector.get(setting)) is not None
        )
        first, *more = entries or [self._entry(self._flow(back.way[0]))]
        where = f"; see {listed([entry.named for entry in more])}" if more else ""
        left = (
            "records that came from a target are kept from going back there"
            if back.brought_by is not None
            else "they are left out"
        )
        text = (
            f"the flows {', '.join(one.name for one in back.way)} call remote topics differently, and each knows only "
            f"its own copies: MirrorMaker 2 copies topics in a cycle for ever ({', '.join(names[:_SHOWN])}, ...); here "
            f"{left}{where}"
        )
        expected = f"the same {_NAMING[1]} and {_NAMING[0]} for all of them, or `topics` that differ"
        if back.brought_by is None and topic != HEARTBEATS:
            return first.problem(text, expected, MistakeKind.CYCLE)
        return first.warning(text, MistakeKind.CYCLE, expected)

    def _flow(self, rule: Topology) -> FlowSettings:
        return next(flow for flow in self.flows if _ends(flow) == rule.name)

    def _problem(self, flow: FlowSettings, text: str, expected: str, kind: MistakeKind) -> ConfigProblem:
        return self._entry(flow).problem(text, expected, kind)

    def _entry(self, flow: FlowSettings) -> PropertyEntry:
        """The line to change: the flow's own topics, or the line that enables it."""
        layers = self.layers[_ends(flow)]
        name = layers.names.connector("topics")
        own = [layers.connector[key] for key in ("topics", "enabled") if key in layers.connector]
        return next((entry for entry in own if entry.line), PropertyEntry(name, "", self.file, None, ""))


def _ends(flow: FlowSettings) -> str:
    return f"{flow.source}->{flow.target}"


def _are_apart(one: FlowSettings, other: FlowSettings) -> bool:
    return one.topic_filter_class is None is other.topic_filter_class and share_no_name(one.topics, other.topics)


def _common(one: Topology, other: Topology) -> list[TopicName]:
    """Topics that both flows mirror under their own names, among the names that their lists probably mean."""
    names = dict.fromkeys((*_samples(one), *_samples(other)))
    return [name for name in names if one.copy_of(name) == name == other.copy_of(name)][:_SHOWN]


def _cycle(rule: Topology, topic: TopicName, rules: Sequence[Topology]) -> TopicCycle | None:
    """A cycle as MirrorMaker 2 would have it, and whether the names of other flows open it here."""
    way = cycle(rule, topic, rules)
    if not way:
        return None
    return returning(rule, topic, rules) or TopicCycle(way, rule)


def _samples(rule: Topology) -> list[TopicName]:
    """Topics that the flow mirrors: names in `topics`, and for each expression a name that it may mean."""
    tried = [pattern.replace("\\.", ".").replace(".*", "").replace(".+", "x") for pattern in rule.topics.include]
    tried = [name or _ANY for name in (*tried, _ANY, HEARTBEATS)]
    return [name for name in dict.fromkeys(map(TopicName, tried)) if rule.copy_of(name) is not None]
