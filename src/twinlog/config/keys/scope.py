"""The cluster, flow or client that an entry configures.

MirrorMaker 2 decides by prefix: `alias.` for a cluster, `A->B.` for a flow, any other key is at top level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations

from twinlog.config.keys.key import Effect, Key, Level
from twinlog.config.keys.table import CLIENTS, CONNECTOR, PROCESS, SECURITY, WORKER
from twinlog.config.keys.worker import TOP_LEVEL_PREFIXES
from twinlog.config.properties import PropertyEntry
from twinlog.model.types import Alias

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
        return "it starts no flow; write A->B.enabled, with the flow's aliases"
    if key.level is Level.ONE_FLOW:
        return f"write A->B.{name}, with the flow's aliases"
    return None
