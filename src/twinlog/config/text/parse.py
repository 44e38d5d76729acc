"""Reads a whole file: finds the scope of each entry, and every problem that is independent of a flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from twinlog.config.keys.connector import CLASS_KEYS
from twinlog.config.keys.key import Effect, UnknownKeys
from twinlog.config.keys.scope import KeyScope, KeyScopes, SourceAndTarget
from twinlog.config.keys.suggest import GUESS, expected_instead
from twinlog.config.keys.table import PROCESS, RESERVED_ALIASES
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.entries import check_value, cut_comment, read_providers, resolve_entry, without_duplicates
from twinlog.config.text.providers import Providers
from twinlog.config.text.values import parse_value
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.model.types import Alias


@dataclass(slots=True)
class ParsedFile:
    """The entries of a file by scope, freed from the key's prefix; and their problems."""

    file: str
    aliases: tuple[Alias, ...]
    top: dict[str, PropertyEntry] = field(default_factory=dict)
    clusters: dict[Alias, dict[str, PropertyEntry]] = field(default_factory=dict)
    flows: dict[SourceAndTarget, dict[str, PropertyEntry]] = field(default_factory=dict)
    problems: list[ConfigProblem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    connector_names: dict[SourceAndTarget, str] = field(default_factory=dict)
    """The name under which a flow keeps its positions, if it differs from MirrorMaker 2's."""


def parse_file(entries: Iterable[PropertyEntry], file: str, unknown: UnknownKeys = "fail") -> ParsedFile:
    """Sorts `entries` of `file`; `unknown` counts unless the file has its own `twinlog.unknown.keys`.

    Raises ConfigError when all aliases are unknown, because then the scope of every entry is unknown.
    """
    warnings: list[str] = []
    entries = list(entries)
    last = without_duplicates(entries, warnings)
    warnings.extend(f"{entry.place}: {entry.key}: {remark}" for entry in entries for remark in entry.remarks)
    problems: list[ConfigProblem] = []
    aliases = _aliases(last, file, problems, warnings)
    found = ParsedFile(file, aliases, problems=problems, warnings=warnings)
    providers = read_providers(last, file, problems, warnings)
    scopes = KeyScopes(aliases)
    scoped = [_resolved(scopes.scope_of(entry), providers, warnings) for entry in last.values()]
    for item in scoped:
        _check(item, found)
        if item.flow is not None:
            found.flows.setdefault(item.flow, {})[item.name] = item.entry
        elif item.alias is not None:
            found.clusters.setdefault(item.alias, {})[item.name] = item.entry
        else:
            found.top[item.name] = item.entry
    _judge_unknown_keys(scoped, scopes, found, unknown)
    _report_effects(scoped, warnings)
    return found


def _aliases(
    last: dict[str, PropertyEntry], file: str, problems: list[ConfigProblem], warnings: list[str]
) -> tuple[Alias, ...]:
    key = PROCESS.exact["clusters"]
    expected = f"{key.form}, such as clusters = {', '.join(_guessed_aliases(last)) or 'primary, secondary'}"
    entry = last.get("clusters")
    if entry is None:
        raise ConfigError([ConfigProblem(file, None, "clusters", "missing", expected)])
    entry = last["clusters"] = cut_comment(entry, warnings)
    aliases = parse_value(replace(key, form=None), entry.value)
    assert isinstance(aliases, tuple)
    if not aliases:
        raise ConfigError([ConfigProblem(entry.file, entry.line, "clusters", "empty", expected)])
    for alias in aliases:
        wrong = _wrong_alias(alias)
        if wrong is not None:
            problems.append(ConfigProblem(entry.file, entry.line, "clusters", repr(alias), wrong))
    return tuple(Alias(alias) for alias in aliases)


def _guessed_aliases(last: Iterable[str]) -> list[str]:
    suffix = ".bootstrap.servers"
    return [name.removesuffix(suffix) for name in last if name.endswith(suffix)]


def _wrong_alias(alias: str) -> str | None:
    if not all(char.isascii() and (char.isalnum() or char in "._-") for char in alias) or not alias.strip("."):
        several = f"; or commas between several: {', '.join(alias.split())}" if len(alias.split()) > 1 else ""
        return f"an alias of a-z A-Z 0-9 . _ -, because it becomes part of topic names{several}"
    if alias in RESERVED_ALIASES:
        return "another alias: keys such as this one's would be read as settings of that name"
    return None


def _resolved(scope: KeyScope, providers: Providers, warnings: list[str]) -> KeyScope:
    key = scope.key if scope.no_effect is None else None
    return replace(scope, entry=resolve_entry(scope.entry, key, providers, warnings))


def _check(scope: KeyScope, found: ParsedFile) -> None:
    entry, key = scope.entry, scope.key
    if key is None:
        return
    if scope.no_effect is not None:
        found.warnings.append(f"{entry.place}: {entry.key} has no effect here; {scope.no_effect}")
        return
    # A problem with a value counts only if its key has an effect here.
    problem = check_value(entry, key, found.warnings, key.pattern_in(scope.name))
    if problem is not None and key.effect not in {Effect.JVM, Effect.BROKER}:
        found.problems.append(problem)


def _judge_unknown_keys(scoped: Iterable[KeyScope], scopes: KeyScopes, found: ParsedFile, unknown: UnknownKeys) -> None:
    policy = found.top.get("twinlog.unknown.keys")
    forgiven = (unknown if policy is None else policy.value.strip()) == "warn"
    for item in scoped:
        if item.key is not None:
            continue
        entry, expected = item.entry, expected_instead(item, scopes)
        reader = own_class(item, found)
        if reader is not None:
            if GUESS in expected and item.flow is not None:
                found.warnings.append(f"{entry.place}: {entry.key} is left to {reader}; expected {expected}")
        elif forgiven and not item.name.startswith("twinlog."):
            found.warnings.append(f"{entry.place}: {entry.key}: an unknown key, ignored; expected {expected}")
        else:
            found.problems.append(ConfigProblem(entry.file, entry.line, entry.key, "an unknown key", expected))


def own_class(item: KeyScope, found: ParsedFile) -> str | None:
    """The class of the user's that may read the entry: any key of its flow, or `replication.policy.` at top level."""
    keys: tuple[str, ...] = CLASS_KEYS
    layers: tuple[Mapping[str, PropertyEntry], ...]
    if item.flow is not None:
        layers = (found.flows.get(item.flow, {}), found.top)
    elif item.alias is None and item.name.startswith("replication.policy."):
        keys, layers = CLASS_KEYS[:1], (found.top, *found.flows.values())
    else:
        return None
    named = (layer[key].value.strip() for layer in layers for key in keys if key in layer)
    return next((name for name in named if ":" in name), None)


def _report_effects(scoped: Iterable[KeyScope], warnings: list[str]) -> None:
    jvm: dict[str, None] = {}
    broker: dict[str, None] = {}
    # Transforms of fields use these converters to read keys and values.
    transforming = any(item.name == "transforms" and item.entry.value.strip() for item in scoped)
    reads = ("key.converter", "value.converter") if transforming else ()
    for item in scoped:
        key = item.key
        if key is None or item.no_effect is not None:
            continue
        if key.effect is Effect.JVM and not item.name.startswith(reads):
            jvm.setdefault(item.entry.key)
        elif key.effect is Effect.BROKER:
            broker.setdefault(item.entry.key)
    if jvm:
        warnings.append(
            "these keys are for Connect's workers and Kafka's Java clients, and have no effect here: " + ", ".join(jvm)
        )
    if broker:
        warnings.append("these keys configure brokers and have no effect on a client: " + ", ".join(broker))
