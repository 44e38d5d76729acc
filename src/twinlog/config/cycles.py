"""Flows of a file that would together copy topics in a cycle for ever: found before any of them runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.config.properties import Entry
from twinlog.config.text.resolve import FlowLayers
from twinlog.errors import ConfigError
from twinlog.mirror.topology.cycles import Return, cycle, returning
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.internal_topics import HEARTBEATS
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

_NAMING = ("replication.policy.class", "replication.policy.separator", "source.cluster.alias")
_ANY = "orders"
_SHOWN = 4


def warn_of_loops(flows: Sequence[FlowSettings], layers: Mapping[str, FlowLayers], warnings: list[str]) -> None:
    """Warn of flows that would copy topics in a cycle, tried with topics that their `topics` may let through.

    `layers` are those of the flows, by their names. Two flows that keep names have a warning of their own.
    """
    rules = []
    for flow in flows:
        try:
            rules.append(topology_of(flow))
        except ConfigError:
            # The class exists only on that flow's host, or the problem is reported elsewhere.
            continue
    warned: set[frozenset[str]] = set()
    for rule in rules:
        for topic in _samples(rule):
            back = _found(rule, topic, rules)
            among = frozenset(one.name for one in back.way) if back is not None else frozenset()
            kept = any(one.keeps_names for one in back.way) if back is not None else False
            if back is None or among in warned or (kept and len(among) == 2):
                continue
            warned.add(among)
            warnings.append(_text(back, topic, layers))


def _found(rule: Topology, topic: TopicName, rules: Sequence[Topology]) -> Return | None:
    """A cycle as MirrorMaker 2 would have it, and whether the names of other flows open it here."""
    way = cycle(rule, topic, rules)
    if not way:
        return None
    return returning(rule, topic, rules) or Return(way, rule)


def _samples(rule: Topology) -> list[TopicName]:
    """Topics that the flow mirrors: those that `topics` names, and for each expression a name as it may mean it."""
    tried = [pattern.replace("\\.", ".").replace(".*", "").replace(".+", "x") for pattern in rule.topics.include]
    tried = [name or _ANY for name in (*tried, _ANY, HEARTBEATS)]
    found = []
    for name in dict.fromkeys(map(TopicName, tried)):
        try:
            if rule.mirrors(name):
                found.append(name)
        except ConfigError:
            continue
    return found


def _text(back: Return, topic: TopicName, layers: Mapping[str, FlowLayers]) -> str:
    names = [topic]
    for one in back.way:
        names.append(one.remote_name(names[-1]))
    flows = ", ".join(one.name for one in back.way)
    lines = dict.fromkeys(
        _place(entry)
        for one in back.way
        if (known := layers.get(one.name)) is not None
        for setting in _NAMING
        if (entry := known.connector.get(setting)) is not None
    )
    where = "; ".join(lines)
    left = "what came from a target is not sent back there" if back.brought_by is not None else "they are left out"
    return (
        f"{f'{where}: ' if where else ''}the flows {flows} do not call remote topics alike, and each knows only its "
        f"own copies: MirrorMaker 2 copies topics in a cycle for ever ({', '.join(names[:_SHOWN])}, ...); here "
        f"{left}; give all of them one {_NAMING[1]} and one {_NAMING[0]}, or keep their `topics` apart"
    )


def _place(entry: Entry) -> str:
    return f"{entry.place}: {entry.key}"
