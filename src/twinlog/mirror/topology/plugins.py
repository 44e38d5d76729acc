"""The replication policy and the filters of a flow: built in, or loaded from Python classes of the user.

Each call makes new objects, and loads the user's class again: call once and keep the result. All functions raise
ConfigError for an unusable class; each result of a user's class is checked for its type.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from twinlog.mirror.topology.naming import DefaultReplicationPolicy, IdentityReplicationPolicy, looks_like_heartbeats
from twinlog.model.topics import is_legal_topic
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import CustomClass, FlowSettings

POLICY_METHODS = ("remote_name", "source_alias", "upstream_name")
FILTER_METHODS = ("accepts",)


@dataclass(frozen=True, slots=True)
class CustomObject:
    """An instance of the class that `named` names. A call returns the documented type or raises ConfigError."""

    named: CustomClass
    instance: Any = field(compare=False)

    def flag(self, method: str, argument: str) -> bool:
        """The answer of a method that returns a bool."""
        answer = self._call(method, argument)
        if not isinstance(answer, bool):
            raise self.error(f"{method}({argument!r}) of {self.named.path} returns {answer!r}", "True or False")
        return answer

    def name(self, method: str, *arguments: str, empty: bool) -> str | None:
        """The answer of a method that returns a name, or with `empty` perhaps None."""
        answer = self._call(method, *arguments)
        if isinstance(answer, str) or (empty and answer is None):
            return answer
        shown = ", ".join(map(repr, arguments))
        expected = "a string or None" if empty else "a string"
        raise self.error(f"{method}({shown}) of {self.named.path} returns {answer!r}", expected)

    def has(self, method: str) -> bool:
        """Whether the class offers an optional method."""
        return callable(getattr(self.instance, method, None))

    def error(self, found: str, expected: str) -> ConfigError:
        """The problem with the class, at the line that names it."""
        named = self.named
        return ConfigError([ConfigProblem(named.file, named.line, named.key, found, expected, MistakeKind.OWN_CODE)])

    def _call(self, method: str, *arguments: str) -> object:
        try:
            return getattr(self.instance, method)(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            shown = ", ".join(map(repr, arguments))
            raise self.error(f"{method}({shown}) of {self.named.path} raises {_told(error)}", "an answer") from error


def load_class(named: CustomClass, methods: tuple[str, ...], settings: tuple[tuple[str, str], ...]) -> CustomObject:
    """An instance of `named`, configured with `settings`; runs the user's code. Raises ConfigError."""
    module_name, _, class_name = named.path.partition(":")
    empty = CustomObject(named, None)
    kind = _attempt(empty, f"importing {module_name}", lambda: _find(empty, module_name, class_name))
    instance = _attempt(empty, f"{class_name}()", kind)
    for method in methods:
        if not callable(getattr(instance, method, None)):
            raise empty.error(
                f"{named.path} has no method {method}",
                f"the methods of twinlog.mirror.topology.protocols: {', '.join(methods)}",
            )
    configure = getattr(instance, "configure", None)
    if configure is not None:
        _attempt(empty, f"{class_name}.configure(...)", lambda: configure(dict(settings)))
    return CustomObject(named, instance)


def _find(empty: CustomObject, module_name: str, class_name: str) -> Callable[[], Any]:
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise empty.error(
            f"the module {error.name!r} is missing", "a module on Python's path: install its package, or set PYTHONPATH"
        ) from None
    kind = getattr(module, class_name, None)
    if not isinstance(kind, type):
        raise empty.error(f"the module {module_name} has no class {class_name!r}", "package.module:Class")
    return kind


def _attempt(empty: CustomObject, what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (ConfigError, KeyboardInterrupt):
        raise
    except BaseException as error:
        # An unguarded script may end the process.
        raise empty.error(f"{what} raises {_told(error)}", "a class that can be used") from error


def _told(error: BaseException) -> str:
    """The type and the text of an exception, on a single line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@dataclass(frozen=True, slots=True)
class CustomPolicy(DefaultReplicationPolicy):
    """The user's class names remote topics; the default policy names heartbeats and internal topics."""

    custom: CustomObject | None = None

    def remote_name(self, alias: Alias, topic: TopicName) -> TopicName:
        """The class's name for `topic` of cluster `alias`; raises ConfigError for an illegal topic name."""
        if looks_like_heartbeats(topic) or self.custom is None:
            return DefaultReplicationPolicy.remote_name(self, alias, topic)
        name = self.custom.name("remote_name", alias, topic, empty=False) or ""
        if not is_legal_topic(name):
            called = f"remote_name({alias!r}, {topic!r}) of {self.custom.named.path} returns {name!r}"
            raise self.custom.error(called, "a legal topic name: at most 249 of a-z A-Z 0-9 . _ -, not . or ..")
        return TopicName(name)

    def source_alias(self, topic: TopicName) -> Alias | None:
        """The cluster that `topic` came from, according to the class."""
        if looks_like_heartbeats(topic) or self.custom is None:
            return DefaultReplicationPolicy.source_alias(self, topic)
        alias = self.custom.name("source_alias", topic, empty=True)
        return None if alias is None else Alias(alias)

    def upstream_name(self, topic: TopicName) -> TopicName | None:
        """The name of `topic` on its cluster of origin, according to the class."""
        if looks_like_heartbeats(topic) or self.custom is None:
            return DefaultReplicationPolicy.upstream_name(self, topic)
        name = self.custom.name("upstream_name", topic, empty=True)
        return None if name is None else TopicName(name)


@dataclass(frozen=True, slots=True)
class CustomTopicFilter(DefaultTopicFilter):
    """Topics by the user's class."""

    custom: CustomObject | None = None

    def refusal(self, topic: str) -> str | None:
        """Why the class rejects `topic`; None if it lets `topic` through."""
        assert self.custom is not None
        return None if self.custom.flag("accepts", topic) else f"{self.custom.named.path} does not accept it"


@dataclass(frozen=True, slots=True)
class CustomGroupFilter(DefaultGroupFilter):
    """Consumer groups by the user's class."""

    custom: CustomObject | None = None

    def accepts(self, group: str) -> bool:
        """Whether the class lets `group` through."""
        assert self.custom is not None
        return self.custom.flag("accepts", group)

    def refusal(self, group: str) -> str | None:
        """Why the class rejects `group`; None if it lets `group` through."""
        assert self.custom is not None
        return None if self.accepts(group) else f"{self.custom.named.path} does not accept it"


@dataclass(frozen=True, slots=True)
class CustomConfigPropertyFilter(DefaultConfigPropertyFilter):
    """Settings of a topic by the user's class."""

    custom: CustomObject | None = None

    def accepts(self, setting: str) -> bool:
        """Whether the class lets `setting` through."""
        assert self.custom is not None
        return self.custom.flag("accepts", setting)

    def accepts_default(self, setting: str) -> bool:
        """Whether the class lets `setting` through although the source topic leaves it at its default."""
        assert self.custom is not None
        return self.custom.has("accepts_default") and self.custom.flag("accepts_default", setting)


def policy_of(flow: FlowSettings) -> DefaultReplicationPolicy:
    """The flow's names for remote topics."""
    internal = flow.separator if flow.internal_separator_follows else "."
    if flow.policy_class is not None:
        custom = load_class(flow.policy_class, POLICY_METHODS, flow.class_settings)
        return CustomPolicy(flow.separator, internal, custom)
    if flow.policy == "identity":
        return IdentityReplicationPolicy(flow.separator, internal, flow.source_name)
    return DefaultReplicationPolicy(flow.separator, internal)


def topic_filter_of(flow: FlowSettings) -> DefaultTopicFilter:
    """Which topics the flow mirrors."""
    if flow.topic_filter_class is not None:
        return CustomTopicFilter(custom=load_class(flow.topic_filter_class, FILTER_METHODS, flow.class_settings))
    return DefaultTopicFilter(flow.topics, flow.topics_exclude)


def group_filter_of(flow: FlowSettings) -> DefaultGroupFilter:
    """The consumer groups whose offsets the flow translates."""
    if flow.group_filter_class is not None:
        return CustomGroupFilter(custom=load_class(flow.group_filter_class, FILTER_METHODS, flow.class_settings))
    return DefaultGroupFilter(flow.groups, flow.groups_exclude)


def config_filter_of(flow: FlowSettings) -> DefaultConfigPropertyFilter:
    """Which settings of a topic the flow carries over."""
    if flow.config_property_filter_class is not None:
        custom = load_class(flow.config_property_filter_class, FILTER_METHODS, flow.class_settings)
        return CustomConfigPropertyFilter(custom=custom)
    return DefaultConfigPropertyFilter(flow.config_properties_exclude, flow.use_defaults_from == "source")
