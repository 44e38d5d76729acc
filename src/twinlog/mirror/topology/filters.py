"""Which topics, groups and topic settings pass a flow's lists of Java's regular expressions.

Rule of Kafka 4.3's DefaultTopicFilter, DefaultGroupFilter and DefaultConfigPropertyFilter: an expression must match the
whole name, and exclude wins over include.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from twinlog.errors import PatternError
from twinlog.model.java_regex.parser import parsed
from twinlog.model.java_regex.pattern import JavaPattern, java_pattern
from twinlog.model.java_regex.tree import UNLIMITED, Choice, Node, OneOf, QuantifierKind, Repeat, Sequence, Text
from twinlog.settings.flow import CONFIG_PROPERTIES_EXCLUDE, GROUPS_EXCLUDE, TOPICS_EXCLUDE, FlowSettings
from twinlog.settings.written import key_of


@lru_cache(maxsize=1024)
def compile_list(patterns: tuple[str, ...]) -> JavaPattern | None:
    """A compiled expression for the whole list; None for an empty list, which has no match.

    Raises PatternError, which names the entry of the list and the place in the entry.
    """
    if not patterns:
        return None
    try:
        return java_pattern("|".join(patterns))
    except PatternError as error:
        raise _of_entry(error, patterns) from None


def _of_entry(error: PatternError, patterns: tuple[str, ...]) -> PatternError:
    """The error with the entry that it is about."""
    if error.at is None:
        return error
    at = error.at
    for pattern in patterns:
        if at <= len(pattern):
            break
        at -= len(pattern) + 1
    why = error.why
    if pattern == "*":
        why += "; for every name write .*"
    elif pattern[at:].startswith("{") and len(patterns) > 1:
        why += "; a comma inside it splits the entry of a list in two"
    return PatternError(why, at, pattern)


@lru_cache(maxsize=1024)
def spelled_out(patterns: tuple[str, ...]) -> frozenset[str]:
    """The names that a list spells out: its alternatives outside groups whose only metacharacters are plain dots.

    A plain dot matches any character, but a user who writes `orders.v1` means that name. Raises PatternError.
    """
    names = (_spelled(option) for option in _alternatives(patterns))
    return frozenset(name for name in names if name)


def _alternatives(patterns: tuple[str, ...]) -> list[tuple[Node, ...]]:
    item = parsed("|".join(patterns)).item
    options = item.options if isinstance(item, Choice) else (item,)
    return [option.items if isinstance(option, Sequence) else (option,) for option in options]


def _spelled(parts: tuple[Node, ...]) -> str | None:
    """The text that a part of an expression matches if it matches a single text; otherwise None."""
    found = ""
    for part in parts:
        text = part.text if isinstance(part, Text) else part.written if isinstance(part, OneOf) else None
        if text is None:
            return None
        found += text
    return found


@lru_cache(maxsize=1024)
def name_beginnings(patterns: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """The literal text that each alternative of a list begins with, and whether more may follow it.

    An alternative that spells out a name is that name, as in `spelled_out`. Raises PatternError.
    """
    found: dict[tuple[str, bool], None] = {}
    for parts in _alternatives(patterns):
        name, begin = _spelled(parts), ""
        for part in parts:
            if not isinstance(part, Text):
                break
            begin += part.text
        found[(name, False) if name else (begin, True)] = None
    return tuple(found)


def share_no_name(patterns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether the lists share no name, by the alternatives that are names or beginnings of names with `.*`."""
    here, there = _beginnings(patterns), _beginnings(others)
    return here is not None and there is not None and all(_are_apart(one, two) for one in here for two in there)


def _beginnings(patterns: tuple[str, ...]) -> list[tuple[str, bool]] | None:
    """The alternatives of a list, each with whether more may follow; None if an alternative has another form."""
    found = []
    for parts in _alternatives(patterns):
        more = bool(parts) and _is_anything(parts[-1])
        begins = parts[:-1] if more else parts
        text = _spelled(begins)
        if text is None or any(isinstance(part, OneOf) and part.written != "." for part in begins):
            return None
        found.append((text, more))
    return found


def _is_anything(part: Node) -> bool:
    return (
        isinstance(part, Repeat)
        and isinstance(part.item, OneOf)
        and part.item.written == "."
        and (part.least, part.most, part.how) == (0, UNLIMITED, QuantifierKind.GREEDY)
    )


def _are_apart(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
    (here, more_here), (there, more_there) = one, other
    # A dot matches any character.
    if any(a != b and "." not in (a, b) for a, b in zip(here, there, strict=False)):
        return True
    return (len(here) < len(there) and not more_here) or (len(there) < len(here) and not more_there)


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a pattern of `patterns` matches the whole of `name`; an empty list has no match. Raises PatternError."""
    compiled = compile_list(patterns)
    return compiled is not None and compiled.matches(name)


def _matches(field: str, patterns: tuple[str, ...], name: str) -> bool:
    """`matches` for the list in a field of the settings; an error names its key."""
    try:
        return matches(patterns, name)
    except PatternError as error:
        why = f"{key_of(FlowSettings, field)}: {error.why}"
        raise PatternError(why, error.at, error.text, message_id=error.message_id) from None


def matching(patterns: tuple[str, ...], name: str) -> str | None:
    """The pattern that matches the whole of `name`; None if only several patterns together are an expression."""
    for pattern in patterns:
        try:
            if matches((pattern,), name):
                return pattern
        except PatternError:
            # For example `(a|b`, cut off by a comma.
            continue
    return None


@dataclass(frozen=True, slots=True)
class DefaultTopicFilter:
    """Topics by `topics` and `topics.exclude`."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = TOPICS_EXCLUDE

    def accepts(self, topic: str) -> bool:
        """Whether the lists let `topic` through."""
        return self.refusal(topic) is None

    def refusal(self, topic: str) -> str | None:
        """Why the lists reject `topic`; None if they let it through."""
        if not _matches("topics", self.include, topic):
            return f"{key_of(FlowSettings, 'topics')} does not match it"
        if _matches("topics_exclude", self.exclude, topic):
            found = matching(self.exclude, topic)
            return f"{key_of(FlowSettings, 'topics_exclude')} matches it" + (f" ({found})" if found else "")
        return None


@dataclass(frozen=True, slots=True)
class DefaultGroupFilter:
    """Consumer groups by `groups` and `groups.exclude`."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = GROUPS_EXCLUDE

    def accepts(self, group: str) -> bool:
        """Whether the lists let `group` through."""
        return _matches("groups", self.include, group) and not _matches("groups_exclude", self.exclude, group)

    def refusal(self, group: str) -> str | None:
        """Why the lists reject `group`; None if they let it through."""
        if self.accepts(group):
            return None
        if not _matches("groups", self.include, group):
            return f"{key_of(FlowSettings, 'groups')} does not match it"
        found = matching(self.exclude, group)
        return f"{key_of(FlowSettings, 'groups_exclude')} matches it" + (f" ({found})" if found else "")


@dataclass(frozen=True, slots=True)
class DefaultConfigPropertyFilter:
    """Settings of a topic by `config.properties.exclude`."""

    exclude: tuple[str, ...] = CONFIG_PROPERTIES_EXCLUDE
    defaults_from_source: bool = False

    def accepts(self, setting: str) -> bool:
        """Whether a setting made on the source topic is carried over."""
        return not _matches("config_properties_exclude", self.exclude, setting)

    def accepts_default(self, setting: str) -> bool:
        """Whether a setting left at the source's default is carried over (`use.defaults.from=source`)."""
        return self.defaults_from_source and self.accepts(setting)
