"""The topic pattern at the end of a key, `twinlog.x.PATTERN`: a Java expression for whole names of source topics."""

from __future__ import annotations

import re
from typing import TypeVar

from twinlog.config.keys.key import Key
from twinlog.config.properties import PropertyEntry
from twinlog.errors import ConfigProblem, PatternError
from twinlog.mirror.topology.patterns import compile_list, spelled_out
from twinlog.model.java_regex.pattern import JavaPattern
from twinlog.settings.per_topic import TopicRule

T = TypeVar("T")

_ESCAPES = re.compile(r"\\[QE]?")


def topic_rule(pattern: str, value: T) -> TopicRule[T]:
    """The rule of an entry. Raises PatternError."""
    return TopicRule(pattern, compile_topic_pattern(pattern), value, name=_is_name(pattern))


def compile_topic_pattern(pattern: str) -> JavaPattern:
    """The expression of an entry. Raises PatternError."""
    compiled = compile_list((pattern,)) if pattern else None
    if compiled is None:
        raise PatternError("nothing follows the last dot", None, pattern)
    return compiled


def refused_pattern(entry: PropertyEntry, key: Key, error: PatternError) -> ConfigProblem:
    """The problem with the pattern in the key of `entry`."""
    expected = f"{key.name}. and a regular expression for names of topics, or {key.name} for every topic"
    return ConfigProblem(entry.file, entry.line, entry.key, str(error), expected)


def _is_name(pattern: str) -> bool:
    """Whether the pattern spells out a single topic; its dots may be plain, escaped, or quoted by `\\Q`."""
    name = _ESCAPES.sub("", pattern)
    # Plain dots alone are a pattern rather than a name: each matches any character.
    return spelled_out((pattern,)) == {name} and bool(name.strip("."))
