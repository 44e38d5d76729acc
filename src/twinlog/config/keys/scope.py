"""The cluster, flow or client that an entry configures, and the key that an unknown key may mean.

MirrorMaker 2 decides by prefix: `alias.` for a cluster, `A->B.` for a flow, any other key is at top level. A message
names a key as it is written at the place of the flow's settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import permutations

from twinlog.config.keys.key import Effect, Key, Level
from twinlog.config.keys.table import CLIENTS, CONNECTOR, PROCESS, SECURITY, WORKER
from twinlog.config.keys.worker import TOP_LEVEL_PREFIXES
from twinlog.config.properties import PropertyEntry
from twinlog.model.types import Alias


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Names in a file of MirrorMaker 2, with an alias or `A->B.` in front.

    A connector of a Connect worker lacks these prefixes, see ConnectorKeyNames.
    """

    source: Alias
    target: Alias

    def source_cluster(self, name: str) -> str:
        """A connection or security setting of the source."""
        return f"{self.source}.{name}"

    def target_cluster(self, name: str) -> str:
        """A connection or security setting of the target."""
        return f"{self.target}.{name}"

    def source_consumer(self, name: str) -> str:
        """A setting of the consumer that reads the source."""
        return f"{self.source}.consumer.{name}"

    def worker(self, name: str) -> str:
        """A setting of the worker."""
        return f"{self.target}.{name}"

    def connector(self, name: str) -> str:
        """A setting of the flow itself."""
        return f"{self.source}->{self.target}.{name}"


@dataclass(frozen=True, slots=True)
class ConnectorKeyNames(KeyNames):
    """Names in the configuration of a connector."""

    def source_cluster(self, name: str) -> str:
        return f"source.cluster.{name}"

    def target_cluster(self, name: str) -> str:
        return f"target.cluster.{name}"

    def source_consumer(self, name: str) -> str:
        return f"source.consumer.{name}"

    def worker(self, name: str) -> str:
        return f"the worker's {name}"

    def connector(self, name: str) -> str:
        return name


SourceAndTarget = tuple[Alias, Alias]
"""The two clusters of a flow (Kafka class SourceAndTarget)."""

_FLOW_CLIENT_PREFIXES = {f"{side}{word}.": word for side in ("source.", "target.", "") for word in CLIENTS} | {
    f"{word}.override.": word for word in CLIENTS
}
_CLUSTER_PREFIXES = ("source.cluster.", "target.cluster.")


@dataclass(frozen=True, slots=True)
class KeyScope:
    """An entry with the cluster, flow or client that its key applies to.

    `alias` is set below an alias and `flow` below a flow; both are None at top level. `name` is the key with that
    prefix removed, `prefix` the text in front of the known `key` inside `name` (`consumer.`, `source.admin.`, or
    empty). `no_effect` is the reason why MirrorMaker 2 ignores the entry at its place, and how to write it.
    """

    entry: PropertyEntry
    name: str
    key: Key | None
    prefix: str = ""
    alias: Alias | None = None
    flow: SourceAndTarget | None = None
    no_effect: str | None = None


class KeyScopes:
    """Sorts entries by the aliases of a file."""

    def __init__(self, aliases: tuple[Alias, ...]) -> None:
        self.aliases = aliases
        self.flows: tuple[SourceAndTarget, ...] = tuple(permutations(aliases, 2))
        # The longest prefix wins: with aliases `us` and `us.west`, `us.west.x` configures `us.west`.
        self._by_alias = sorted(aliases, key=len, reverse=True)
        self._longest_first = sorted(self.flows, key=lambda flow: len(flow[0]) + len(flow[1]), reverse=True)

    def scope_of(self, entry: PropertyEntry) -> KeyScope:
        """The scope of `entry`; its `key` is None for an unknown name."""
        scope = self._find(entry)
        pointless = (
            scope.key is not None
            and scope.key.effect in {Effect.JVM, Effect.BROKER}
            and _providers_no_effect(scope.name) is None
        )
        # A key that is ignored at every place stays ignored after a move.
        return replace(scope, no_effect=None) if pointless else scope

    def _find(self, entry: PropertyEntry) -> KeyScope:
        for flow in self._longest_first:
            prefix = f"{flow[0]}->{flow[1]}."
            if entry.key.startswith(prefix):
                return _in_flow(entry, flow, entry.key.removeprefix(prefix))
        for alias in self._by_alias:
            prefix = f"{alias}."
            # A key like `source.cluster.alias` keeps its meaning when an alias is called `source`.
            if entry.key.startswith(prefix) and entry.key not in CONNECTOR.exact:
                return _in_cluster(entry, alias, entry.key.removeprefix(prefix))
        return _at_top(entry)


def connector_key(name: str) -> tuple[Key | None, str]:
    """The key that counts for `name` in a connector's settings, and the prefix of the client it belongs to."""
    key = CONNECTOR.find_key(name)
    if key is not None:
        return key, ""
    for prefix in _CLUSTER_PREFIXES:
        if name.startswith(prefix):
            return SECURITY.find_key(name.removeprefix(prefix)), prefix
    for prefix, word in _FLOW_CLIENT_PREFIXES.items():
        if name.startswith(prefix) and (known := CLIENTS[word].find_key(name.removeprefix(prefix))) is not None:
            return known, prefix
    return None, ""


def _in_flow(entry: PropertyEntry, flow: SourceAndTarget, name: str) -> KeyScope:
    key, prefix = connector_key(name)
    if key is not None or prefix:
        word = _FLOW_CLIENT_PREFIXES.get(prefix)
        no_effect = None if word is None else _flow_client_no_effect(flow, prefix, word, name.removeprefix(prefix))
        return KeyScope(entry, name, key, prefix, flow=flow, no_effect=no_effect)
    key = SECURITY.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key, flow=flow, no_effect=_below_alias(flow, name))
    key = WORKER.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key, flow=flow, no_effect=_providers_no_effect(name) or f"write {flow[1]}.{name}")
    return KeyScope(entry, name, None, flow=flow)


def _providers_no_effect(name: str) -> str | None:
    return f"providers serve the whole file; write {name} at top level" if name.startswith("config.providers") else None


def _below_alias(flow: SourceAndTarget, name: str) -> str:
    return f"clients take it from their cluster; write {flow[0]}.{name} or {flow[1]}.{name}"


def _flow_client_no_effect(flow: SourceAndTarget, prefix: str, word: str, rest: str) -> str | None:
    if word == "producer" and prefix != "producer.override.":
        return f"the producer that writes records takes {flow[1]}.producer.{rest}"
    if prefix == "consumer.override.":
        return f"the consumer that reads records takes {flow[0]}.consumer.{rest}"
    if prefix == "target.consumer.":
        return f"records are read from the source; write {flow[0]}.consumer.{rest}"
    if prefix == "admin.override.":
        return f"write {flow[0]}.admin.{rest} or {flow[1]}.admin.{rest}"
    return None


def _in_cluster(entry: PropertyEntry, alias: Alias, name: str) -> KeyScope:
    word, _, rest = name.partition(".")
    if word in CLIENTS and rest:
        key = CLIENTS[word].find_key(rest)
        if key is None and (connector := CONNECTOR.find_key(name)) is not None:
            return KeyScope(
                entry, name, connector, alias=alias, no_effect=f"write A->B.{name}, with the flow's aliases"
            )
        if key is not None or name not in WORKER.exact:
            return KeyScope(entry, name, key, f"{word}.", alias=alias)
    key = WORKER.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key, alias=alias, no_effect=_providers_no_effect(name))
    key = CONNECTOR.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key, alias=alias, no_effect=f"write A->B.{name}, with the flow's aliases")
    return KeyScope(entry, name, None, alias=alias)


def _at_top(entry: PropertyEntry) -> KeyScope:
    name = entry.key
    key = PROCESS.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key)
    key = CONNECTOR.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key, no_effect=_top_connector_no_effect(key, name))
    key = SECURITY.find_key(name)
    if key is not None:
        return KeyScope(entry, name, key)
    key = WORKER.find_key(name)
    if key is not None:
        counts = name.startswith(TOP_LEVEL_PREFIXES)
        return KeyScope(entry, name, key, no_effect=None if counts else f"write B.{name}, with the target's alias")
    for prefix, word in _FLOW_CLIENT_PREFIXES.items():
        rest = name.removeprefix(prefix)
        if name.startswith(prefix) and (known := CLIENTS[word].find_key(rest)) is not None:
            return KeyScope(entry, name, known, prefix, no_effect=f"write alias.{word}.{rest}, with a cluster's alias")
    return KeyScope(entry, name, None)


def _top_connector_no_effect(key: Key, name: str) -> str | None:
    if name == "enabled":
        return "it leaves all flows off; write A->B.enabled, with the flow's aliases"
    if key.level is Level.ONE_FLOW:
        return f"write A->B.{name}, with the flow's aliases"
    return None


_CLOSE = 0.72
GUESS = "did you mean"
"""The words in every text that names a key."""

_OR_WARN = "remove it, or write twinlog.unknown.keys = warn to ignore unknown keys"
_ARROWS = ("=>", "\u2192", "\u21d2", "\u27f6", "\u2794", "\u279c", "\u2013>", "\u2014>", "-->", ">>", ">")
"""The texts that users write for the arrow of a flow, beside `->`."""

_BEGINS_WITH_ARROW = re.compile(r"(->|>|[\u2192\u21d2\u27f6\u2794\u279c]|[\u2013\u2014]>)\s*([^\s=:]+)")

_CLUSTER_NAMES = (
    *WORKER.exact,
    *(f"{word}.{name}" for word, table in CLIENTS.items() for name in table.exact),
)
_TOP_NAMES = (*PROCESS.exact, *CONNECTOR.exact, *SECURITY.exact)


def with_arrow(entry: PropertyEntry, aliases: Iterable[str]) -> PropertyEntry:
    """The entry with the whole key of a flow, if its key ended inside an arrow or at a blank before it.

    A properties file ends a key at its first blank, `=` or `:`, so that `east=>west.enabled = true` is a key `east` in
    MirrorMaker 2. The key found here is unknown as well, and its problem names the way to write it.
    """
    key, value = _as_typed(entry.key), _as_typed(entry.value)
    found = _BEGINS_WITH_ARROW.match(value)
    if found is not None and (key in aliases or any(found[2].startswith(f"{alias}.") for alias in aliases)):
        joint, rest = ("=" if found[1] == ">" else " "), value[found.end() :].lstrip(" \t=:")
        return replace(entry, key=f"{key}{joint}{found[0]}", value=rest, written=rest, remarks=())
    # Other keys stay as Java reads them.
    return replace(entry, key=key) if key != entry.key and _with_right_arrow(key) != key else entry


def _as_typed(text: str) -> str:
    """Text that was saved in UTF-8, as its author sees it."""
    try:
        return text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text


def _with_right_arrow(name: str) -> str:
    """The key of a flow with `->` in place of another arrow; other names as they are."""
    if "->" in name and "-->" not in name:
        return re.sub(r"\s*->\s*", "->", name)
    found = next((arrow for arrow in _ARROWS if arrow in name), None)
    return name if found is None else re.sub(rf"\s*{re.escape(found)}\s*", "->", name)


def expected_instead(scope: KeyScope, scopes: KeyScopes) -> str:
    """The way out for an unknown key: the key that was probably meant, or the place to look at."""
    name = scope.entry.key
    flow = _with_right_arrow(name)
    if "->" in flow and scope.flow is None:
        return _flow_instead(name, flow, scopes)
    if scope.flow is not None:
        return spelled(scope.name, CONNECTOR.exact, f"{scope.flow[0]}->{scope.flow[1]}.")
    if scope.alias is not None:
        for word, table in CLIENTS.items():
            if table.find_key(scope.name) is not None:
                return _meant(f"{scope.alias}.{word}.{scope.name}")
        return spelled(scope.name, _CLUSTER_NAMES, f"{scope.alias}.")
    for known in sorted((*SECURITY.exact, *_CLUSTER_NAMES), key=len, reverse=True):
        if name.endswith(f".{known}"):
            return _alias_instead(name.removesuffix(f".{known}"), known, scopes)
    for word, table in CLIENTS.items():
        if table.find_key(name) is not None:
            return f"write alias.{word}.{name}, with a cluster's alias"
    return spelled(name, [*_TOP_NAMES, *(f"{alias}.bootstrap.servers" for alias in scopes.aliases)])


def _flow_instead(name: str, flow: str, scopes: KeyScopes) -> str:
    """`flow` is the key with the right arrow."""
    itself = next((alias for alias in scopes.aliases if flow.startswith(f"{alias}->{alias}.")), None)
    if itself is not None:
        return f"a flow is between two clusters; {itself} would mirror itself"
    if flow != name:
        why = "a key ends at its first blank" if re.search(r"\s->\s|\s->|->\s", name) else "the arrow of a flow is ->"
        known = next((ends for ends in scopes.flows if flow.startswith(f"{ends[0]}->{ends[1]}.")), None)
        if known is not None:
            prefix = f"{known[0]}->{known[1]}."
            setting = flow.removeprefix(prefix)
            if connector_key(setting)[0] is not None:
                return f"{_meant(flow)} {why}"
            return f"{spelled(setting, CONNECTOR.exact, prefix)} {why}"
    source, _, rest = flow.partition("->")
    lacking = f"clusters names {', '.join(scopes.aliases)}" if scopes.aliases else "clusters is empty"
    for setting in sorted(CONNECTOR.exact, key=len, reverse=True):
        if rest.endswith(f".{setting}"):
            ends = (source, rest.removesuffix(f".{setting}"))
            strange = [alias for alias in ends if alias not in scopes.aliases]
            flows = [f"{one}->{other}" for one, other in scopes.flows]
            close = get_close_matches("->".join(ends), flows, n=1, cutoff=_CLOSE)
            why = f"{_none_of(strange)}: {lacking}" if strange else lacking
            return f"{_meant(f'{close[0]}.{setting}')} {why}" if close else why
    shown = ", ".join(f"{one}->{other}" for one, other in scopes.flows[:6]) + (", ..." if len(scopes.flows) > 6 else "")
    return f"write a flow between two of the clusters: {shown or 'none, for clusters names fewer than two'}"


def _none_of(aliases: list[str]) -> str:
    names = " and ".join(map(repr, aliases))
    return f"{names} is no cluster of this file" if len(aliases) == 1 else f"{names} are no clusters of this file"


def _alias_instead(alias: str, known: str, scopes: KeyScopes) -> str:
    exact = [item for item in scopes.aliases if item.lower() == alias.lower()]
    close = exact or get_close_matches(alias, scopes.aliases, n=1, cutoff=_CLOSE)
    names = f"clusters names {', '.join(scopes.aliases) or 'none'}"
    if close:
        why = "aliases are case sensitive" if exact else names
        return f"{_meant(f'{close[0]}.{known}')} {why}"
    return f"{alias!r} is no cluster of this file: {names}"


def spelled(name: str, candidates: Iterable[str], prefix: str = "", otherwise: str = _OR_WARN) -> str:
    """The way out for an unknown key: the candidate that was probably meant, or else `otherwise`."""
    known = list(candidates)
    words = sorted(name.split("."))
    turned = [item for item in known if sorted(item.split(".")) == words]
    close = turned or get_close_matches(name, known, n=1, cutoff=_CLOSE)
    return _meant(prefix + close[0]) if close else otherwise


def _meant(key: str) -> str:
    return f"{GUESS} {key}?"
