"""The entries of a file, each with its scope: the last of each key, comments cut, references resolved, values checked.

A problem that depends on a flow is found later, when the settings of the flow are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from twinlog.config.keys.connector import CLASS_KEYS
from twinlog.config.keys.key import Effect, Key, KeyType, UnknownKeys, ValueForm
from twinlog.config.keys.scope import GUESS, KeyScope, KeyScopes, SourceAndTarget, expected_instead
from twinlog.config.keys.table import NEW_NAMES, PROCESS, RESERVED_ALIASES
from twinlog.config.properties import PropertyEntry, without_inline_comment
from twinlog.config.text.config_reader import compile_topic_pattern, refused_pattern, refused_value
from twinlog.config.text.providers import ProviderError, Providers, build_providers
from twinlog.config.text.values import Lookup, MissingError, Value, ValueRefusedError, instead_of, parse_value
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.mirror.topology.filters import PatternError
from twinlog.model.types import Alias

_WILDCARD = re.compile(r"[\w.-]*[\w-]\*")
_QUOTES = ("'", '"')


def pattern_warnings(key: Key, value: Value) -> list[str]:
    """Warnings of a list of regular expressions; empty for any other value."""
    return doubts(value) if key.form is ValueForm.PATTERNS and isinstance(value, tuple) else []


def doubts(patterns: tuple[str, ...]) -> list[str]:
    """Warnings of regular expressions for names."""
    found = [
        f"{item!r} is a regular expression, and its * repeats the character before it; for every name that begins so "
        f"write {item[:-1]}.*"
        for item in patterns
        if _WILDCARD.fullmatch(item)
    ]
    doubled = next((item for item in patterns if item.startswith("=")), None)
    if doubled is not None:
        found.append(f"{doubled!r} is impossible as a name: a second = belongs to the value; write a single =")
    quoted = next((item for item in patterns if item.startswith(_QUOTES) or item.endswith(_QUOTES)), None)
    if quoted is not None:
        found.append(f"the quotes of {quoted} count as part of the name; write it bare")
    return found


_COMMENT_IS_VALUE = frozenset({KeyType.STRING, KeyType.PASSWORD})


def without_duplicates(entries: Iterable[PropertyEntry], warnings: list[str]) -> dict[str, PropertyEntry]:
    """The entries by key; of several with the same key the last."""
    last: dict[str, PropertyEntry] = {}
    for entry in entries:
        if entry.key in last:
            warnings.append(f"{entry.place}: {entry.key} was already written at line {last[entry.key].line}; this wins")
        last[entry.key] = entry
    return last


def cut_comment(entry: PropertyEntry, warnings: list[str]) -> PropertyEntry:
    """The entry with the comment after its value cut off."""
    value = without_inline_comment(entry.value)
    if value == entry.value:
        return entry
    warnings.append(
        f"{entry.place}: {entry.key}: a comment after a value is part of the value in a properties file; read as "
        f"{value!r}, without {entry.value.removeprefix(value).strip()!r}"
    )
    return replace(entry, value=value)


def read_providers(
    last: Mapping[str, PropertyEntry],
    file: str,
    problems: list[ConfigProblem],
    warnings: list[str],
    known: Mapping[str, Lookup] = MappingProxyType({}),
) -> Providers:
    """The providers that `config.providers` names, of Kafka's classes or the `known` classes.

    A provider with wrong settings is a problem, and all its lookups fail.
    """
    entry = last.get("config.providers")
    if entry is None:
        return Providers({})
    names = parse_value(PROCESS.exact["config.providers"], without_inline_comment(entry.value))
    assert isinstance(names, tuple)
    try:
        return build_providers(names, last, warnings, known)
    except ProviderError as error:
        line = last[error.key].line if error.key in last else entry.line
        problems.append(ConfigProblem(file, line, error.key, error.found, error.expected))
        return Providers(dict.fromkeys(names, _broken_lookup))


def _broken_lookup(path: str, key: str) -> str:
    raise MissingError("config.providers is set up wrong")


def resolve_entry(entry: PropertyEntry, key: Key | None, providers: Providers, warnings: list[str]) -> PropertyEntry:
    """The entry with its references resolved, and its comment cut off if the value of `key` excludes comments."""
    if key is not None and (key.type not in _COMMENT_IS_VALUE or key.form is not None):
        entry = cut_comment(entry, warnings)
    kept = providers.why_kept(entry.value)
    if kept is not None:
        warnings.append(f"{entry.place}: {entry.key}: {kept}; the ${{...}} stays as it is")
        entry = replace(entry, kept_reference=kept)
    try:
        return replace(entry, value=providers.resolve(entry.value))
    except MissingError as error:
        return replace(entry, unresolved=str(error), way_out=error.way_out)


def check_value(
    entry: PropertyEntry, key: Key, warnings: list[str], pattern: str | None = None
) -> ConfigProblem | None:
    """The problem of the value of `entry`, if any; an old name, a doubtful pattern and a replaced value are warnings.

    `pattern` is the topic pattern at the end of the entry's key, if there is any. A dangling reference is a problem
    only if its value is needed.
    """
    renamed = NEW_NAMES.get(key.name)
    if renamed is not None:
        warnings.append(f"{entry.place}: {entry.key} is an old name; write {renamed}")
    if pattern is not None:
        try:
            compile_topic_pattern(pattern)
        except PatternError as error:
            return refused_pattern(entry, key, error)
        warnings.extend(f"{entry.place}: {entry.key}: {warning}" for warning in doubts((pattern,)))
    if entry.unresolved is not None:
        return None
    try:
        value = parse_value(key, entry.value)
    except ValueRefusedError as refused:
        return refused_value(entry, refused)
    other = instead_of(key, entry.value)
    if other is not None:
        shown = entry.written if "${" in entry.written else entry.value.strip()
        warnings.append(f"{entry.place}: {entry.key}: {shown!r} is read as {other.value}: {other.why}")
    warnings.extend(f"{entry.place}: {entry.key}: {warning}" for warning in pattern_warnings(key, value))
    return None


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
    expected = f"{key.form}, as in clusters = {', '.join(_guessed_aliases(last)) or 'primary, secondary'}"
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
        return "another alias: its keys would be read as settings of that name"
    return None


def _resolved(scope: KeyScope, providers: Providers, warnings: list[str]) -> KeyScope:
    key = scope.key if scope.no_effect is None else None
    return replace(scope, entry=resolve_entry(scope.entry, key, providers, warnings))


def _check(scope: KeyScope, found: ParsedFile) -> None:
    entry, key = scope.entry, scope.key
    if key is None:
        return
    if scope.no_effect is not None:
        found.warnings.append(f"{entry.place}: {entry.key} is ignored here; {scope.no_effect}")
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
            "these keys are for Connect's workers and Kafka's Java clients, and are ignored here: " + ", ".join(jvm)
        )
    if broker:
        warnings.append("these keys configure brokers and are ignored by a client: " + ", ".join(broker))
