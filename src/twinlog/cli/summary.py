"""The actions of an enabled flow, in a few lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.settings.flow import CustomClass, ExactlyOnce, FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.transform import TransformSettings

_WRITES: Mapping[ExactlyOnce, str] = {
    "disabled": "without transactions",
    "preparing": "without transactions, ready for processes that use them",
    "enabled": "in transactions, together with positions",
}


def summary(flow: FlowSettings) -> list[str]:
    """Lines about a flow of a dedicated MirrorMaker 2."""
    return [f"flow {flow.name}", *_ends(flow), *_topics(flow), *_groups(flow), *_copying(flow)]


def connector_summary(flow: FlowSettings, *, idle: bool) -> list[str]:
    """Lines about a connector, which does a part of these actions; an `idle` connector is switched off."""
    off = " (switched off)" if idle else ""
    lines = [f"connector {flow.connector_name}: {flow.kind} {flow.source}->{flow.target}{off}"]
    if flow.kind == "source":
        return [*lines, *_ends(flow), *_topics(flow), *_copying(flow)]
    if flow.kind == "checkpoint":
        return [*lines, *_ends(flow), *_groups(flow)]
    beats = _every("written", flow.emit_heartbeats_interval_s)
    return [*lines, _ends(flow)[-1], f"  heartbeats {beats}"]


def _ends(flow: FlowSettings) -> list[str]:
    return [
        f"  from       {', '.join(flow.consumer.client.bootstrap_servers)}",
        f"  to         {', '.join(flow.producer.client.bootstrap_servers)}",
    ]


def _topics(flow: FlowSettings) -> list[str]:
    return [
        f"  topics     {_chosen(flow.topics, flow.topic_filter_class)}; they {_renamed(flow)}",
        f"  except     {_left_out(flow.topics_exclude, flow.topic_filter_class)}",
        f"  new topics {_every('looked for', flow.refresh_topics_interval_s)}",
        f"  settings   {_every('kept in step', flow.sync_topic_configs_interval_s)}",
        f"  ACLs       {_every('kept in step', flow.sync_topic_acls_interval_s)}",
    ]


def _groups(flow: FlowSettings) -> list[str]:
    translated = _every("translated", flow.emit_checkpoints_interval_s)
    there = f"committed on {flow.target}"
    committed = f"not {there}" if flow.sync_group_offsets_interval_s is None else f"{there} at once"
    return [
        f"  groups     {_chosen(flow.groups, flow.group_filter_class)}",
        f"  except     {_left_out(flow.groups_exclude, flow.group_filter_class)}",
        f"  offsets    {translated}; {committed}",
    ]


def _copying(flow: FlowSettings) -> list[str]:
    return [
        f"  tasks      at most {flow.tasks_max}",
        f"  positions  in {flow.positions_topic} on {flow.target}",
        *_starts(flow),
        f"  writes     {_WRITES[flow.exactly_once]}",
        *_transforms(flow.transform),
        f"  on a gap   {_by_topic(flow.gap_policy)}",
        f"  oversized  {_by_topic(flow.oversized_record_policy)}",
        f"  refused    {_by_topic(flow.refused_record_policy)}",
        f"  renamed    {flow.renamed_topic_policy} when topics were copied to other names before",
    ]


def _starts(flow: FlowSettings) -> list[str]:
    """The first offsets of topics, if some begin after their earliest record."""
    default = flow.start.default or flow.consumer.auto_offset_reset
    own = [f"{rule.pattern}: {rule.value or flow.consumer.auto_offset_reset}" for rule in flow.start.rules]
    if default.kind == "earliest" and not own:
        return []
    return [f"  begins     {'; '.join([str(default), *own])}; topics that appear later at their earliest record"]


def _transforms(transform: TransformSettings | None) -> list[str]:
    if transform is None:
        return []
    failed = "holds its partition" if transform.tolerance == "none" else f"is {_skipped(transform)}"
    return [f"  transforms {transform.steps}; a record that fails {failed}"]


def _by_topic(policy: PerTopic[Any]) -> str:
    r"""A policy, and the topics with a policy of their own: `hold, skip for logs\..*`."""
    return ", ".join((policy.default, *(f"{rule.value} for {rule.pattern}" for rule in policy.rules)))


def _skipped(transform: TransformSettings) -> str:
    topic = transform.dead_letter_topic
    return f"written to {topic}" if topic else "skipped"


def _renamed(flow: FlowSettings) -> str:
    if flow.policy_class is not None:
        return f"are named by {flow.policy_class.path}"
    return "keep their names" if flow.keeps_names else f"become {flow.source_name}{flow.separator}<topic>"


def _every(work: str, seconds: float | None) -> str:
    return f"not {work}" if seconds is None else f"{work} every {seconds:g} s"


def _chosen(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else f"those that {own.path} accepts"


def _left_out(names: tuple[str, ...], own: CustomClass | None) -> str:
    return (", ".join(names) or "(none)") if own is None else "all others"
