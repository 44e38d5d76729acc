"""Typed reading of a layer of settings, with the defaults of the key table behind it.

A key may end in a topic pattern, `twinlog.x.PATTERN`: a Java expression for whole names of source topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from twinlog.config.keys.key import Key, KeyType
from twinlog.config.keys.table import KeyTable
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.values import Value, ValueRefusedError, parse_value
from twinlog.errors.mistakes import ConfigProblem, MistakeKind
from twinlog.mirror.topology.filters import PatternError, compile_list, spelled_out
from twinlog.model.java_regex.pattern import JavaPattern
from twinlog.settings.per_topic import PerTopic, TopicRule
from twinlog.settings.written import written

T = TypeVar("T")

_ALONE = re.compile(r"\s*\$\{[^}]*\}\s*")
_ESCAPES = re.compile(r"\\[QE]?")


def topic_rule(pattern: str, value: T) -> TopicRule[T]:
    """The rule of an entry. Raises PatternError."""
    return TopicRule(pattern, compile_topic_pattern(pattern), value, name=_is_name(pattern))


def compile_topic_pattern(pattern: str) -> JavaPattern:
    """The expression of an entry. Raises PatternError."""
    compiled = compile_list((pattern,)) if pattern else None
    if compiled is None:
        raise PatternError("the part after the last dot is missing", None, pattern)
    return compiled


def refused_pattern(entry: PropertyEntry, key: Key, error: PatternError) -> ConfigProblem:
    """The problem with the pattern in the key of `entry`."""
    expected = f"{key.name}. and a regular expression for names of topics, or {key.name} for every topic"
    return entry.problem(str(error), expected, MistakeKind.WRONG_PATTERN)


def _is_name(pattern: str) -> bool:
    """Whether the pattern spells out a single topic; its dots may be plain, escaped, or quoted by `\\Q`."""
    name = _ESCAPES.sub("", pattern)
    # Plain dots alone are a pattern rather than a name: each matches any character.
    return spelled_out((pattern,)) == {name} and bool(name.strip("."))


SHORTEST_S = 0.1
"""Replaces an interval of 0, with which MirrorMaker 2 would always be busy."""


def refused_value(entry: PropertyEntry, refused: ValueRefusedError) -> ConfigProblem:
    """The problem with the value of `entry`; the target of a reference stays hidden."""
    if entry.kept_reference is not None:
        return entry.problem(entry.kept_reference, entry.way_out, MistakeKind.UNDECLARED)
    shown = repr(entry.written) if "${" in entry.written else refused.found
    # Java's properties end a key at the first equals sign.
    if entry.value.lstrip().startswith("="):
        expected = f"{refused.expected}; a second = belongs to the value"
        return entry.problem(shown, expected, MistakeKind.DOUBLED_EQUALS)
    return entry.problem(shown, refused.expected, refused.kind)


class Problems:
    """Problems in the order they were found, each once, though several clients may read the same entry."""

    def __init__(self, found: list[ConfigProblem]) -> None:
        self._seen = {str(problem): problem for problem in found}

    def add(self, problem: ConfigProblem) -> None:
        """Keeps `problem` unless an equal problem is known."""
        self._seen.setdefault(str(problem), problem)

    def refuse(self, entry: PropertyEntry, found: str, expected: str, kind: MistakeKind | None = None) -> None:
        """Keeps a problem with the value of `entry`; the target of a reference stays hidden."""
        if entry.value and "${" in entry.written:
            for text in (repr(entry.value)[1:-1], entry.value, entry.value.strip()):
                found = found.replace(text, entry.written) if text else found
        self.add(entry.problem(found, expected, kind))

    def add_new(self, others: Iterable[ConfigProblem]) -> None:
        """Keeps the problems among `others` whose entry is still free of problems."""
        for problem in others:
            if (problem.line, problem.key) not in {(known.line, known.key) for known in self._seen.values()}:
                self.add(problem)

    def all(self) -> list[ConfigProblem]:
        """Every problem kept."""
        return list(self._seen.values())


class ConfigReader:
    """Reads settings of a layer by name. A wrong value is a problem, and its default replaces it."""

    def __init__(self, layer: Mapping[str, PropertyEntry], table: KeyTable, problems: Problems) -> None:
        self.layer = layer
        self._table = table
        self.problems = problems

    def with_layer(self, layer: Mapping[str, PropertyEntry]) -> ConfigReader:
        """The same of another layer."""
        return ConfigReader(layer, self._table, self.problems)

    def get_entry(self, name: str) -> PropertyEntry | None:
        """The entry that decides `name`; None if the default counts, or if a reference is dangling."""
        entry = self.layer.get(name)
        if entry is not None and entry.unresolved is not None:
            # The problem of a provider that is set up wrong is at its own line.
            if entry.unresolved:
                text = (
                    f"{entry.written.strip()}: {entry.unresolved}"
                    if _ALONE.fullmatch(entry.written)
                    else entry.unresolved
                )
                self.problems.refuse(entry, text, entry.way_out, MistakeKind.LOST_REFERENCE)
            return None
        return entry

    def has_key(self, name: str) -> bool:
        """Whether the table has this key."""
        return name in self._table.exact

    def text(self, name: str) -> str:
        """A STRING, ENUM, CLASS or PASSWORD; empty if both value and default are missing."""
        value = self._value(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        """A BOOL."""
        value = self._value(name)
        assert isinstance(value, bool)
        return value

    def number(self, name: str) -> int:
        """A SHORT, INT or LONG."""
        value = self._value(name)
        assert isinstance(value, int)
        return value

    def value_if_any(self, name: str) -> Value | None:
        """A value of the key's own type; None if both value and default are missing, or if the value is empty."""
        value = self._value(name)
        return None if value == "" else value

    def interval(self, name: str, switch: str) -> float | None:
        """The seconds between two rounds of the work of `switch`; None if it is switched off or the interval is
        negative."""
        seconds = self.number(name)
        return max(float(seconds), SHORTEST_S) if self.flag(switch) and seconds >= 0 else None

    def items(self, name: str) -> tuple[str, ...]:
        """A LIST; empty if both value and default are missing."""
        value = self._value(name)
        if value is None:
            return ()
        assert isinstance(value, tuple)
        return value

    def value(self, name: str) -> Value | PerTopic[Value]:
        """A value of the key's own type, or a value for each topic."""
        key = self._table.exact[name]
        return self.per_topic(name) if key.per_topic else self._plain(name, key)

    def per_topic(self, name: str) -> PerTopic[Value]:
        """The values of a key that may differ for some topics; a wrong rule is left out."""
        key = self._table.exact[name]
        rules = []
        for full in self.layer:
            pattern = key.pattern_in(full)
            if pattern is not None and (entry := self.get_entry(full)) is not None:
                try:
                    rules.append(topic_rule(pattern, parse_value(key, entry.value)))
                except ValueRefusedError as refused:
                    self.problems.add(refused_value(entry, refused))
                except PatternError as error:
                    self.problems.add(refused_pattern(entry, key, error))
        return PerTopic.of(self._plain(name, key), rules)

    def _plain(self, name: str, key: Key) -> Value:
        if key.type is KeyType.LIST:
            return self.items(name)
        value = self._value(name)
        return "" if value is None else value

    def _value(self, name: str) -> Value | None:
        key = self._table.exact[name]
        renamed = bool(key.old_name) and name not in self.layer and key.old_name in self.layer
        entry = self.get_entry(key.old_name if renamed else name)
        if entry is not None:
            try:
                return parse_value(key, entry.value)
            except ValueRefusedError as refused:
                self.problems.add(refused_value(entry, refused))
        return None if key.default is None else parse_value(key, key.default)


def read_fields(kind: type, *readings: ConfigReader) -> dict[str, Any]:
    """The fields of a settings class that a key alone fills, each from the reader of `readings` that knows its key."""
    defaults = {field.name: field.default for field in fields(kind)}
    found: dict[str, Any] = {}
    for name, how in written(kind).items():
        if not how.plain:
            continue
        reading = next(reading for reading in readings if reading.has_key(how.key))
        if how.switch:
            found[name] = reading.interval(how.key, how.switch)
        elif defaults[name] is None:
            found[name] = reading.value_if_any(how.key)
        else:
            found[name] = reading.value(how.key)
    return found
