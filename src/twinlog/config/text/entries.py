"""The entries of a file, each with its scope: the last of each key, comments cut, references resolved, values checked.

A problem that depends on a flow is found later, when the settings of the flow are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from twinlog.config.keys.connector import CLASS_KEYS
from twinlog.config.keys.key import Effect, Key, KeyType, UnknownKeys
from twinlog.config.keys.scope import GUESS, KeyScope, KeyScopes, SourceAndTarget, expected_instead, with_arrow
from twinlog.config.keys.table import NEW_NAMES, PROCESS, RESERVED_ALIASES
from twinlog.config.properties import PropertyEntry, without_inline_comment
from twinlog.config.text.config_reader import compile_topic_pattern, refused_pattern, refused_value
from twinlog.config.text.name_lists import doubts, warnings_of_value
from twinlog.config.text.providers import ProviderError, Providers, build_providers
from twinlog.config.text.values import Lookup, MissingError, ValueRefusedError, instead_of, parse_value
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.mirror.topology.filters import PatternError
from twinlog.model.types import Alias

IGNORED_HERE = "ignored here"
"""The beginning of the warning about a key at a place where MirrorMaker 2 ignores it as well."""

_COMMENT_IS_VALUE = frozenset({KeyType.STRING, KeyType.PASSWORD})


def without_duplicates(entries: Iterable[PropertyEntry], warnings: list[ConfigWarning]) -> dict[str, PropertyEntry]:
    """The entries by key; of several with the same key the last."""
    last: dict[str, PropertyEntry] = {}
    for entry in entries:
        if entry.key in last:
            text = f"already written at line {last[entry.key].line}; this line counts"
            warnings.append(entry.warning(text, MistakeKind.WRITTEN_TWICE))
        last[entry.key] = entry
    return last


def cut_comment(entry: PropertyEntry, warnings: list[ConfigWarning]) -> PropertyEntry:
    """The entry with the comment after its value cut off."""
    value = without_inline_comment(entry.value)
    if value == entry.value:
        return entry
    text = (
        f"a comment after a value is part of the value in a properties file; read as {value!r}, without "
        f"{entry.value.removeprefix(value).strip()!r}"
    )
    warnings.append(entry.warning(text, MistakeKind.READ_OTHERWISE))
    return replace(entry, value=value)


def read_providers(
    last: Mapping[str, PropertyEntry],
    file: str,
    problems: list[ConfigProblem],
    warnings: list[ConfigWarning],
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
        problems.append(ConfigProblem(file, line, error.key, error.found, error.expected, MistakeKind.PROVIDER))
        return Providers(dict.fromkeys(names, _broken_lookup))


def _broken_lookup(path: str, key: str) -> str:
    """Fails without words, because the provider is a problem of its own."""
    raise MissingError("", "")


def resolve_entry(
    entry: PropertyEntry, key: Key | None, providers: Providers, warnings: list[ConfigWarning]
) -> PropertyEntry:
    """The entry with its references resolved, and its comment cut off if the value of `key` excludes comments.

    A reference to an unknown provider stays text, as in Kafka, and is a warning if the key has an effect.
    """
    entry = resolve_known(entry, key, providers, warnings)
    if entry.kept_reference is not None and key is not None and key.effect is Effect.WORKS:
        warnings.append(entry.warning(entry.kept_reference, MistakeKind.UNDECLARED, entry.way_out))
    return entry


def resolve_known(
    entry: PropertyEntry, key: Key | None, providers: Providers, warnings: list[ConfigWarning]
) -> PropertyEntry:
    """The same without a warning: `kept_reference` of the entry says which reference stays text."""
    if key is not None and (key.type not in _COMMENT_IS_VALUE or key.form is not None):
        entry = cut_comment(entry, warnings)
    kept = providers.why_kept(entry.value)
    if kept is not None:
        entry = replace(entry, kept_reference=kept, way_out=providers.declaration(entry.value))
    try:
        return replace(entry, value=providers.resolve(entry.value))
    except MissingError as error:
        return replace(entry, unresolved=str(error), way_out=error.way_out)


def check_value(
    entry: PropertyEntry, key: Key, warnings: list[ConfigWarning], pattern: str | None = None
) -> ConfigProblem | None:
    """The problem of the value of `entry`, if any; an old name, a doubtful pattern and a replaced value are warnings.

    `pattern` is the topic pattern at the end of the entry's key, if there is any. A dangling reference is a problem
    only if its value is needed.
    """
    renamed = NEW_NAMES.get(key.name)
    if renamed is not None:
        warnings.append(entry.warning(f"an old name; write {renamed}", MistakeKind.READ_OTHERWISE))
    if pattern is not None:
        try:
            compile_topic_pattern(pattern)
        except PatternError as error:
            return refused_pattern(entry, key, error)
        warnings.extend(entry.warning(text, MistakeKind.DOUBTFUL_PATTERN) for text in doubts((pattern,)))
    if entry.unresolved is not None:
        return None
    try:
        value = parse_value(key, entry.value)
    except ValueRefusedError as refused:
        return refused_value(entry, refused)
    other = instead_of(key, entry.value)
    if other is not None:
        shown = entry.written if "${" in entry.written else entry.value.strip()
        text = f"{shown!r} is read as {other.value}: {other.why}"
        warnings.append(entry.warning(text, MistakeKind.READ_OTHERWISE))
    warnings.extend(warnings_of_value(entry, key, value))
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
    warnings: list[ConfigWarning] = field(default_factory=list)
    connector_names: dict[SourceAndTarget, str] = field(default_factory=dict)
    """The name under which a flow keeps its positions, if it differs from MirrorMaker 2's."""


def parse_file(entries: Iterable[PropertyEntry], file: str, unknown: UnknownKeys = "fail") -> ParsedFile:
    """Sorts `entries` of `file`; `unknown` counts unless the file has its own `twinlog.unknown.keys`.

    Raises ConfigError when all aliases are unknown, because then the scope of every entry is unknown.
    """
    warnings: list[ConfigWarning] = []
    entries = list(entries)
    names = _written_aliases(entries)
    entries = [with_arrow(entry, names) for entry in entries]
    last = without_duplicates(entries, warnings)
    warnings.extend(entry.warning(text, MistakeKind.READ_OTHERWISE) for entry in entries for text in entry.remarks)
    problems: list[ConfigProblem] = []
    aliases = _aliases(last, file, problems, warnings)
    found = ParsedFile(file, aliases, problems=problems, warnings=warnings)
    providers = read_providers(last, file, problems, warnings)
    scopes = KeyScopes(aliases)
    scoped = [_resolved(scopes.scope_of(entry), providers, warnings) for entry in last.values()]
    lenient = unknown == "warn"
    for item in scoped:
        _check(item, found)
        _judge_reference(item, found, lenient=lenient)
        if item.flow is not None:
            found.flows.setdefault(item.flow, {})[item.name] = item.entry
        elif item.alias is not None:
            found.clusters.setdefault(item.alias, {})[item.name] = item.entry
        else:
            found.top[item.name] = item.entry
    if not lenient:
        refuse_useless(found.problems, warnings)
    _judge_unknown_keys(scoped, scopes, found, unknown)
    _report_effects(scoped, warnings)
    return found


def _aliases(
    last: dict[str, PropertyEntry], file: str, problems: list[ConfigProblem], warnings: list[ConfigWarning]
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


def _written_aliases(entries: Iterable[PropertyEntry]) -> list[str]:
    written = [without_inline_comment(entry.value) for entry in entries if entry.key == "clusters"]
    return [alias.strip() for value in written[-1:] for alias in value.split(",") if alias.strip()]


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


def _resolved(scope: KeyScope, providers: Providers, warnings: list[ConfigWarning]) -> KeyScope:
    key = scope.key if scope.no_effect is None else None
    return replace(scope, entry=resolve_known(scope.entry, key, providers, warnings))


def _check(scope: KeyScope, found: ParsedFile) -> None:
    entry, key = scope.entry, scope.key
    if key is None:
        return
    if scope.no_effect is not None:
        found.warnings.append(entry.warning(f"{IGNORED_HERE}; {scope.no_effect}", MistakeKind.IGNORED))
        return
    # A problem with a value counts only if its key has an effect here.
    problem = check_value(entry, key, found.warnings, key.pattern_in(scope.name))
    if problem is not None and key.effect not in {Effect.JVM, Effect.BROKER}:
        found.problems.append(problem)


_USELESS = frozenset({MistakeKind.IMPOSSIBLE_NAME, MistakeKind.UNDECLARED})


def refuse_useless(problems: list[ConfigProblem], warnings: list[ConfigWarning]) -> None:
    """Turns warnings of names that no topic can have, and of undeclared providers, into problems: a flow would copy
    less than its file asks for, or fail to log in. Kafka's own commands start with these files, and so do their
    replacements."""
    for warning in [one for one in warnings if one.kind in _USELESS]:
        warnings.remove(warning)
        problems.append(warning.as_problem())


def _judge_reference(scope: KeyScope, found: ParsedFile, *, lenient: bool) -> None:
    """A reference to an undeclared provider is a problem if its value takes effect: as a password the text itself could
    only fail at a broker."""
    entry, key = scope.entry, scope.key
    if entry.kept_reference is None or key is None or scope.no_effect is not None or key.effect is not Effect.WORKS:
        return
    if lenient:
        found.warnings.append(entry.warning(entry.kept_reference, MistakeKind.UNDECLARED, entry.way_out))
    elif (problem := entry.problem(entry.kept_reference, entry.way_out, MistakeKind.UNDECLARED)) not in found.problems:
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
                text = f"unknown key, left to {reader}"
                found.warnings.append(entry.warning(text, MistakeKind.UNKNOWN_KEY, expected))
        elif forgiven and not item.name.startswith("twinlog."):
            found.warnings.append(entry.warning("unknown key, ignored", MistakeKind.UNKNOWN_KEY, expected))
        else:
            found.problems.append(entry.problem("unknown key", expected, MistakeKind.UNKNOWN_KEY))


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


def _report_effects(scoped: Iterable[KeyScope], warnings: list[ConfigWarning]) -> None:
    ignored = ignored_entries(scoped)
    for effect, why in (
        (Effect.JVM, "these keys are for Connect's workers and Kafka's Java clients, and are ignored here"),
        (Effect.BROKER, "these keys configure brokers and are ignored by a client"),
    ):
        if entries := ignored[effect]:
            first = next(iter(entries.values()))
            text = f"{why}: {', '.join(entries)}"
            warnings.append(ConfigWarning(first.file, first.line, "", text, kind=MistakeKind.IGNORED))


def ignored_entries(scoped: Iterable[KeyScope]) -> Mapping[Effect, Mapping[str, PropertyEntry]]:
    """The entries that configure Kafka's Java processes or brokers, and are ignored here, by their keys."""
    scoped = list(scoped)
    jvm: dict[str, PropertyEntry] = {}
    broker: dict[str, PropertyEntry] = {}
    # Transforms of fields use these converters to read keys and values.
    transforming = any(item.name == "transforms" and item.entry.value.strip() for item in scoped)
    reads = ("key.converter", "value.converter") if transforming else ()
    for item in scoped:
        key = item.key
        if key is None or item.no_effect is not None:
            continue
        if key.effect is Effect.JVM and not item.name.startswith(reads):
            jvm.setdefault(item.entry.key, item.entry)
        elif key.effect is Effect.BROKER:
            broker.setdefault(item.entry.key, item.entry)
    return {Effect.JVM: jvm, Effect.BROKER: broker}
