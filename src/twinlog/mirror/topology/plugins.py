"""The replication policy and the filters of one flow: built in, or the user's own classes.

Each call makes new ones, and loads the user's class again: call once and keep the result. All raise ConfigError when
such a class cannot be used.
"""

from __future__ import annotations

from twinlog.mirror.topology.custom import (
    FILTER_METHODS,
    POLICY_METHODS,
    CustomConfigPropertyFilter,
    CustomGroupFilter,
    CustomPolicy,
    CustomTopicFilter,
    load_class,
)
from twinlog.mirror.topology.filters import ConfigPropertyFilter, GroupFilter, TopicFilter
from twinlog.mirror.topology.naming import IdentityPolicy, ReplicationPolicy
from twinlog.settings.flow import FlowSettings


def policy_of(flow: FlowSettings) -> ReplicationPolicy:
    """The flow's names for remote topics."""
    internal = flow.separator if flow.internal_separator_follows else "."
    if flow.policy_class is not None:
        custom = load_class(flow.policy_class, POLICY_METHODS, flow.class_settings)
        return CustomPolicy(flow.separator, internal, custom)
    if flow.policy == "identity":
        return IdentityPolicy(flow.separator, internal, flow.source_name)
    return ReplicationPolicy(flow.separator, internal)


def topic_filter_of(flow: FlowSettings) -> TopicFilter:
    """Which topics the flow mirrors."""
    if flow.topic_filter_class is not None:
        return CustomTopicFilter(custom=load_class(flow.topic_filter_class, FILTER_METHODS, flow.class_settings))
    return TopicFilter(flow.topics, flow.topics_exclude)


def group_filter_of(flow: FlowSettings) -> GroupFilter:
    """Of which consumer groups the flow translates offsets."""
    if flow.group_filter_class is not None:
        return CustomGroupFilter(custom=load_class(flow.group_filter_class, FILTER_METHODS, flow.class_settings))
    return GroupFilter(flow.groups, flow.groups_exclude)


def config_filter_of(flow: FlowSettings) -> ConfigPropertyFilter:
    """Which settings of a topic the flow carries over."""
    if flow.config_property_filter_class is not None:
        custom = load_class(flow.config_property_filter_class, FILTER_METHODS, flow.class_settings)
        return CustomConfigPropertyFilter(custom=custom)
    return ConfigPropertyFilter(flow.config_properties_exclude, flow.use_defaults_from == "source")
