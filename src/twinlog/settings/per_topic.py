"""A setting that may have another value for some topics: `twinlog.x`, and `twinlog.x.PATTERN` beside it.

Several patterns may match the same topic. A pattern that spells out a name comes first, then the longest; patterns of
equal length come in alphabetical order. The order of patterns in the file is ignored: the configuration of a connector
is unordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from twinlog.model.java_regex.pattern import JavaPattern

T = TypeVar("T")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TopicRule(Generic[T]):
    """The value for topics whose whole name matches `pattern`, a Java expression as it is written.

    `regex` is the same expression compiled. `name` says that the pattern spells out a single topic.
    """

    pattern: str
    regex: JavaPattern = field(repr=False, compare=False)
    value: T
    name: bool = False

    def matches(self, topic: str) -> bool:
        """Whether the rule matches a topic of this name; an earlier rule may still decide."""
        return self.regex.matches(topic)


@dataclass(frozen=True, slots=True)
class PerTopic(Generic[T]):
    """The values of a setting: the first matching rule wins, and `default` counts for all other topics."""

    default: T
    rules: tuple[TopicRule[T], ...] = ()

    @classmethod
    def of(cls, default: T, rules: Iterable[TopicRule[T]]) -> PerTopic[T]:
        """The setting with its rules in the order in which they count."""
        return cls(default, tuple(sorted(rules, key=lambda rule: (not rule.name, -len(rule.pattern), rule.pattern))))

    def for_topic(self, topic: str) -> T:
        """The value for a source topic of this name."""
        rule = self.rule_for(topic)
        return self.default if rule is None else rule.value

    def rule_for(self, topic: str) -> TopicRule[T] | None:
        """The rule that decides for a source topic of this name; None if the default counts."""
        return next((rule for rule in self.rules if rule.matches(topic)), None)

    def map(self, change: Callable[[T], V]) -> PerTopic[V]:
        """The same rules with each value changed."""
        rules = (TopicRule(rule.pattern, rule.regex, change(rule.value), rule.name) for rule in self.rules)
        return PerTopic(change(self.default), tuple(rules))

    @property
    def values(self) -> tuple[T, ...]:
        """Every value that counts for some topic, the default first."""
        return self.default, *(rule.value for rule in self.rules)
