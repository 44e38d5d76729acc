"""The value of a key in each flow, and the line of the file that sets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.config.keys.key import Key, Level
from twinlog.config.keys.scope import KeyScope, KeyScopes, SourceAndTarget, expected_instead
from twinlog.config.keys.table import CLIENTS, CONNECTOR
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.text.config_reader import ConfigReader, Problems
from twinlog.config.text.entries import ParsedFile, own_class, parse_file
from twinlog.config.text.precedence import FlowLayers, Layer, resolve_flow
from twinlog.config.text.values import instead_of
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind
from twinlog.model.types import Alias

HIDDEN = "[hidden]"
_OF_SOURCE = {"offset.storage.topic": "mm2-offsets.{}.internal", "group.id": "{}-mm2"}
"""Defaults that depend on the flow (Kafka class MirrorMakerConfig, workerConfig)."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`setting` of `flow` is `value`, because of `origin` ("file:line, written as key", or "default").

    `flow` is empty for keys of the whole file. Secrets are hidden, references shown unresolved.
    """

    flow: str
    setting: str
    value: str
    origin: str

    def __str__(self) -> str:
        flow = f"{self.flow}: " if self.flow else ""
        return f"{flow}{self.setting} = {self.value}  ({self.origin})"


def explain(path: str | Path, key: str) -> list[Explanation]:
    """The values of `key` in the file at `path`; `key` is written as in the file (`topics`, `A->B.topics`).

    Covers every flow that the file names, enabled or disabled, and for keys of heartbeats every pair of clusters.
    Raises ConfigError for an unknown key and for a file that lacks clusters; ignores all other problems of the file.
    """
    found = parse_file(read_properties(Path(path)), str(path))
    scopes = KeyScopes(found.aliases)
    scope = scopes.scope_of(PropertyEntry(key, "", str(path), 0, ""))
    if scope.key is None:
        reader = own_class(scope, found)
        layer = found.top if scope.flow is None else found.flows.get(scope.flow, {})
        if reader is not None and scope.name in layer:
            entry = layer[scope.name]
            flow = "" if scope.flow is None else "->".join(scope.flow)
            return [Explanation(flow, scope.name, entry.written, f"{entry.place}, read by {reader}")]
        raise ConfigError(
            [
                ConfigProblem(
                    "--explain", None, key, "unknown key", expected_instead(scope, scopes), MistakeKind.UNKNOWN_KEY
                )
            ]
        )
    if scope.alias is None and scope.flow is None and scope.key.level is Level.PROCESS:
        return [_explained("", key, scope.key, found.top.get(key))]
    return [
        item
        for source, target in _flows_of(found, scopes, scope)
        for item in _of_flow(resolve_flow(found, source, target), scope, scope.key)
    ]


def entry_of(path: str | Path, key: str) -> PropertyEntry | None:
    """The file's entry for a key of a single flow, `A->B.topics`; None if the default applies."""
    found = parse_file(read_properties(Path(path)), str(path))
    scope = KeyScopes(found.aliases).scope_of(PropertyEntry(key, "", str(path), 0, ""))
    assert scope.flow is not None
    return resolve_flow(found, *scope.flow).connector.get(scope.name)


def _flows_of(found: ParsedFile, scopes: KeyScopes, scope: KeyScope) -> list[SourceAndTarget]:
    if scope.flow is not None:
        return [scope.flow]
    every = "heartbeats." in scope.name
    return [ends for ends in scopes.flows if (every or ends in found.flows) and scope.alias in {None, *ends}]


def _of_flow(layers: FlowLayers, scope: KeyScope, key: Key) -> list[Explanation]:
    flow = f"{layers.source}->{layers.target}"
    if key.level is Level.CLUSTER and key.name in _OF_SOURCE:
        key = replace(key, default=_OF_SOURCE[key.name].format(layers.source))
    if key.per_topic:
        return list(_of_topics(flow, layers.connector, scope.name, key))
    return [
        _explained(flow, prefix + name, key, layer.get(name) or layer.get(key.old_name or name))
        for prefix, name, layer in _layers(layers, scope, key)
    ]


def _of_topics(flow: str, layer: Layer, name: str, key: Key) -> Iterator[Explanation]:
    """All forms of a key per topic in the order in which they count; of `KEY.TOPIC` the form that counts for the
    topic."""
    problems = Problems([])
    rules = ConfigReader(layer, CONNECTOR, problems).per_topic(key.name).rules
    topic = key.pattern_in(name)
    if topic is not None and name not in layer:
        rules = tuple(rule for rule in rules if rule.matches(topic))[:1]
    elif topic is not None:
        rules = tuple(rule for rule in rules if rule.pattern == topic)
    for rule in rules:
        setting = f"{key.name}.{rule.pattern}"
        yield _explained(flow, setting, key, layer[setting])
    if topic is None or not rules:
        yield _explained(flow, key.name, key, layer.get(key.name))


def _layers(layers: FlowLayers, scope: KeyScope, key: Key) -> list[tuple[str, str, Layer]]:
    """Prefix for the reader, name in the layer, and the layer, of every client or part that reads the key."""
    if not scope.prefix and key.level is not Level.SECURITY:
        of_connector = key.level in {Level.FLOW, Level.ONE_FLOW}
        return [("", scope.name, layers.connector if of_connector else layers.worker)]
    clients: list[tuple[str, Alias, Layer]] = [
        ("consumer.", layers.source, layers.consumer),
        ("producer.", layers.target, layers.producer),
        ("source.admin.", layers.source, layers.source_admin),
        ("target.admin.", layers.target, layers.target_admin),
    ]
    word = next((word for word in CLIENTS if f"{word}." in scope.prefix), "")
    return [
        (prefix, key.name, layer) for prefix, alias, layer in clients if word in prefix and scope.alias in {None, alias}
    ]


def _explained(flow: str, setting: str, key: Key, entry: PropertyEntry | None) -> Explanation:
    if entry is None:
        return Explanation(flow, setting, "(none)" if key.default is None else key.default, "default")
    value = HIDDEN if key.secret else entry.written if "${" in entry.written else entry.value
    other = instead_of(key, entry.value)
    if other is not None:
        return Explanation(flow, setting, other.value, f"{entry.place}, written as {entry.key} = {value}")
    return Explanation(flow, setting, value, f"{entry.place}, written as {entry.key}")
