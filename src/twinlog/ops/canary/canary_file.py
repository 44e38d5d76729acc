"""The properties file of a canary: a flow of chosen topics that leaves everything of MirrorMaker 2 untouched.

The canary reads the same source under an alias of its own. So its copies, its group, its positions and its internal
topics have names of their own, for example `east-canary.orders` and `mm2-offsets.east-canary.internal`. Connections
and logins are copied as they are written, and references to secrets stay references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog.config.keys.process import LISTENERS, REST_KEYS
from twinlog.config.keys.scope import KeyScope, KeyScopes, SourceAndTarget
from twinlog.config.properties import PropertyEntry, property_line
from twinlog.config.text.entries import ignored_entries, without_duplicates
from twinlog.errors import ConfigError
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import is_legal_topic
from twinlog.model.types import Alias, TopicName
from twinlog.ops.convert.model import raw
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

_CHOSEN = ("clusters", "enabled", "topics", "topics.whitelist", "topic.filter.class", "source.cluster.alias")
"""Keys for which the canary has a value of its own."""

_SHARED = ("sync.group.offsets.", "sync.topic.acls.", "emit.heartbeats.", "heartbeats.", "offset-syncs.topic.location")
"""Keys of work that would touch groups, ACLs or topics of MirrorMaker 2."""

_NAMES = (
    *("group.id", "offset.storage.topic", "config.storage.topic", "status.storage.topic"),
    "offsets.storage.topic",
)
"""Keys that name what MirrorMaker 2 keeps for itself."""

_PORTS = (LISTENERS, "twinlog.driver.port", "dedicated.mode.", *(key.name.removesuffix("*") for key in REST_KEYS))
"""Keys of ports, which another process on the same host may have."""

OWN_SETTINGS: Mapping[str, str] = {
    "sync.group.offsets.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "offset-syncs.topic.location": "target",
}
"""Settings of the canary's flow. The topic of offset syncs on the source has the alias of the target alone in its name,
so that MirrorMaker 2 would translate the offsets of groups by the canary's syncs."""

_DEFAULT_POLICY = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
_PLAIN = re.compile(r"[A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class CanaryChoice:
    """The choices of an operator: the flow, the canary's alias of its source, and topics of the source by name.

    With `prefix` copies are called `alias.topic` although the flow keeps names. `start` is the value of
    `twinlog.start`, None for the flow's own start.
    """

    flow: FlowSettings
    alias: Alias
    topics: tuple[TopicName, ...]
    prefix: bool = False
    start: str | None = None


def exact_pattern(topic: TopicName) -> str:
    """A Java regular expression for a single topic: `orders.eu` as a pattern would accept `orders-eu`, too."""
    return "".join(char if _PLAIN.fullmatch(char) else f"[{char}]" for char in topic)


def canary_obstacles(choice: CanaryChoice, aliases: Iterable[Alias]) -> Iterator[str]:
    """The reasons against a canary that would touch a part of MirrorMaker 2, or stay empty, each with the way out.

    `aliases` are all aliases that the file knows.
    """
    flow = choice.flow
    if choice.alias in set(aliases):
        yield (
            f"the alias {choice.alias} is taken: the file knows a cluster of this name, and the canary would write to "
            f"its copies and positions; choose another name, for example --alias {_free(choice.alias, set(aliases))}"
        )
        return
    if flow.keeps_names and not choice.prefix:
        policy = key_of(FlowSettings, "policy")
        yield (
            f"{flow.name} keeps the names of topics, so the canary would write into the topics of MirrorMaker 2; add "
            f"--prefix, which gives the canary {policy} = {_DEFAULT_POLICY}, so that "
            f"its copies are called {choice.alias}.{choice.topics[0]}"
        )
        return
    if flow.policy == "custom" and not choice.prefix:
        yield (
            f"{flow.name} names copies by a class of your own, which may ignore the canary's alias; add --prefix, so "
            f"that the canary's copies are called {choice.alias}.{choice.topics[0]}"
        )
    topology = topology_of(flow)
    for topic in choice.topics:
        if not is_legal_topic(topic):
            yield f"{topic!r} is no name of a topic: name each topic exactly, with --topic once for each"
        elif (why := topology.refusal(topic)) is not None:
            yield (
                f"{flow.name} leaves out {topic} ({why}), so MirrorMaker 2 has no copy to compare with; choose a topic "
                "that the flow copies, as `twinlog plan` lists them"
            )


def copied_further_by(choice: CanaryChoice, flows: Sequence[FlowSettings]) -> Iterator[str]:
    """Flows of the file that read the canary's target and would copy the canary's topics."""
    for other in flows:
        if not other.enabled or other.source != choice.flow.target or not other.copies:
            continue
        try:
            topology = topology_of(other)
        except ConfigError:
            continue
        taken = [name for topic in choice.topics if topology.mirrors(name := canary_topic(choice, topic))]
        if taken:
            exclude = key_of(FlowSettings, "topics_exclude")
            yield (
                f"MirrorMaker 2's flow {other.name} would copy the canary's topic {taken[0]} from {other.source} to "
                f"{other.target}; add {exact_pattern(TopicName(choice.alias + _separator(choice)))}.* to "
                f"{other.written_as(exclude)} and restart MirrorMaker 2 before the canary starts, or ignore the copy "
                "with --copied-further"
            )


def canary_topic(choice: CanaryChoice, topic: TopicName) -> TopicName:
    """The name of the canary's copy of a topic, under the default policy."""
    return TopicName(f"{choice.alias}{_separator(choice)}{topic}")


def _separator(choice: CanaryChoice) -> str:
    return "." if choice.prefix else choice.flow.separator


def _free(alias: Alias, taken: set[Alias]) -> str:
    number = 2
    while f"{alias}-{number}" in taken:
        number += 1
    return f"{alias}-{number}"


@dataclass(frozen=True, slots=True)
class CanaryFile:
    """The text of a canary's file, and the keys of MirrorMaker 2's file that it leaves out because of their ports."""

    text: str
    left_out: tuple[str, ...]


def canary_file(entries: Iterable[PropertyEntry], aliases: tuple[Alias, ...], choice: CanaryChoice) -> CanaryFile:
    """The file of a canary, from the entries of MirrorMaker 2's file, whose `clusters` are `aliases`."""
    flow = choice.flow
    ends: SourceAndTarget = (flow.source, flow.target)
    scopes = KeyScopes(aliases)
    top: list[str] = []
    clusters: list[str] = []
    own: list[str] = []
    left_out: list[str] = []
    scoped = [scopes.scope_of(entry) for entry in without_duplicates(entries, []).values()]
    ignored = {key for entries in ignored_entries(scoped).values() for key in entries}
    for scope in scoped:
        entry = scope.entry
        # A check of the canary's file would warn of these keys.
        if entry.key in ignored or scope.no_effect is not None or not _concerns(scope, ends):
            continue
        if scope.name.startswith(_PORTS):
            left_out.append(entry.key)
        elif is_own(scope.name, prefix=choice.prefix):
            continue
        elif scope.flow is not None:
            own.append(property_line(f"{choice.alias}->{flow.target}.{scope.name}", raw(entry)))
        elif scope.alias is not None:
            alias = choice.alias if scope.alias == flow.source else scope.alias
            clusters.append(property_line(f"{alias}.{scope.name}", raw(entry)))
        else:
            top.append(property_line(entry.key, raw(entry)))
    own += (property_line(f"{choice.alias}->{flow.target}.{key}", value) for key, value in _settings(choice).items())
    lines = [
        f"# A canary: twinlog copies topics of {flow.source} beside MirrorMaker 2, under names of its own.\n",
        property_line("clusters", f"{choice.alias}, {flow.target}"),
        # Heartbeats of the opposite direction, which MirrorMaker 2 writes by default, are off as well.
        property_line("emit.heartbeats.enabled", "false"),
        *top,
        "\n",
        *clusters,
        "\n",
        *own,
    ]
    return CanaryFile("".join(lines), tuple(left_out))


def _concerns(scope: KeyScope, ends: SourceAndTarget) -> bool:
    """Whether an entry counts for the flow: at top level, for one of its clusters, or for the flow itself."""
    return scope.flow in (None, ends) and scope.alias in (None, *ends)


def is_own(name: str, *, prefix: bool) -> bool:
    """Whether the canary leaves out a key of MirrorMaker 2's flow, as the key is chosen for it or touches others."""
    if prefix and name.startswith("replication.policy."):
        return True
    return name in _CHOSEN or name in _NAMES or name.startswith(_SHARED)


def topic_patterns(choice: CanaryChoice) -> str:
    """The value of `topics` for the chosen topics."""
    return ", ".join(map(exact_pattern, choice.topics))


def chosen_settings(choice: CanaryChoice) -> dict[str, str]:
    """The settings that follow from the options of an operator."""
    found: dict[str, str] = {}
    if choice.prefix:
        found |= {key_of(FlowSettings, "policy"): _DEFAULT_POLICY, key_of(FlowSettings, "separator"): "."}
    if choice.start is not None:
        found[key_of(FlowSettings, "start")] = choice.start
    return found


def _settings(choice: CanaryChoice) -> dict[str, str]:
    """The settings of the canary's flow that differ from those of MirrorMaker 2's file."""
    return {"enabled": "true", "topics": topic_patterns(choice), **OWN_SETTINGS, **chosen_settings(choice)}
