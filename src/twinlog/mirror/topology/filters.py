"""Which topics, groups and topic settings pass a flow's lists of expressions.

Rule of Kafka 4.3's DefaultTopicFilter, DefaultGroupFilter and DefaultConfigPropertyFilter: an expression must match the
whole name, and exclude wins over include.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.errors import PatternError
from twinlog.mirror.topology.patterns import compile_list
from twinlog.settings.flow import CONFIG_PROPERTIES_EXCLUDE, GROUPS_EXCLUDE, TOPICS_EXCLUDE, FlowSettings
from twinlog.settings.written import key_of


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a pattern of `patterns` matches the whole of `name`; an empty list has no match. Raises PatternError."""
    compiled = compile_list(patterns)
    return compiled is not None and compiled.matches(name)


def _matches(field: str, patterns: tuple[str, ...], name: str) -> bool:
    """`matches` for the list in a field of the settings; an error names its key."""
    try:
        return matches(patterns, name)
    except PatternError as error:
        raise PatternError(f"{key_of(FlowSettings, field)}: {error.why}", error.at, error.text) from None


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
