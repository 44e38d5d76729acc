"""Prepares the entries of a file or of a connector: keeps the last of each key, cuts comments, and resolves
references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from twinlog.config.keys.key import Key, KeyType, ValueForm
from twinlog.config.keys.table import OLD_NAMES, PROCESS
from twinlog.config.properties import PropertyEntry, without_inline_comment
from twinlog.config.refused import ValueRefusedError
from twinlog.config.text.per_topic import compile_topic_pattern, refused_pattern
from twinlog.config.text.providers import Lookup, MissingError, ProviderError, Providers, build_providers
from twinlog.config.text.reading import refused_value
from twinlog.config.text.values import Value, instead_of, parse_value
from twinlog.errors import ConfigProblem
from twinlog.mirror.topology.patterns import PatternError

_WILDCARD = re.compile(r"[\w.-]*[\w-]\*")
_QUOTES = ("'", '"')


def pattern_warnings(key: Key, value: Value) -> list[str]:
    """Warnings of a list of regular expressions; empty for any other value."""
    return doubts(value) if key.form is ValueForm.PATTERNS and isinstance(value, tuple) else []


def doubts(patterns: tuple[str, ...]) -> list[str]:
    """Warnings of regular expressions for names."""
    found = [
        f"{item!r} is a regular expression, where * repeats the character before it; for every name that begins so "
        f"write {item[:-1]}.*"
        for item in patterns
        if _WILDCARD.fullmatch(item)
    ]
    doubled = next((item for item in patterns if item.startswith("=")), None)
    if doubled is not None:
        found.append(f"{doubled!r} matches no name: a second = belongs to the value; write one")
    quoted = next((item for item in patterns if item.startswith(_QUOTES) or item.endswith(_QUOTES)), None)
    if quoted is not None:
        found.append(f"the quotes of {quoted} count as part of the name; write it without them")
    return found


_RENAMED = {old: name for name, old in OLD_NAMES.items()}
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
        f"{entry.place}: {entry.key}: a properties file has no comments after a value; "
        f"read as {value!r} without {entry.value.removeprefix(value).strip()!r}"
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
    renamed = _RENAMED.get(key.name)
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
