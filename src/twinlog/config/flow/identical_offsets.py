"""Refuses `twinlog.offsets = identical` together with settings by which a record could lose its offset.

A transform changes the number of records, a policy leaves records out, and the markers of own transactions take
offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from twinlog.config.properties import PropertyEntry
from twinlog.config.text.config_reader import ConfigReader
from twinlog.errors.mistakes import MistakeKind
from twinlog.mirror.topology.filters import spelled_out
from twinlog.settings.flow import FlowSettings
from twinlog.settings.per_topic import PerTopic
from twinlog.settings.written import key_of

IDENTICAL = "identical"
_KEY = key_of(FlowSettings, "offsets")
_LEAVING_OUT = ("skip", "continue", "dead-letter")
"""The values of policies that leave records out."""

_POLICIES = ("gap_policy", "oversized_record_policy", "refused_record_policy")


def check_identical_offsets(connector: ConfigReader, flow: FlowSettings) -> None:
    """Add a problem for each setting of a flow that contradicts identical offsets."""
    entries = list(_entries(connector))
    if not entries or not flow.may_keep_offsets:
        return
    others = []
    if flow.transform is not None:
        others.append(("a transform", "translated, or leave out the transform"))
    if flow.exactly_once != "disabled":
        key = key_of(FlowSettings, "exactly_once")
        text = "translated; identical offsets are copied exactly once without transactions, with"
        others.append((f"{key} = {flow.exactly_once}", f"{text} {key} = disabled"))
    for field in _POLICIES:
        if _meet(flow.offsets, getattr(flow, field)):
            key = key_of(FlowSettings, field)
            others.append(
                (f"{key}, which leaves records of these topics out", f"translated, or {key} = hold for these topics")
            )
    for found, expected in others:
        for entry in entries:
            connector.problems.refuse(
                entry, f"{entry.value.strip()!r} together with {found}", expected, MistakeKind.CONTRADICTION
            )


def _entries(connector: ConfigReader) -> Iterator[PropertyEntry]:
    """The lines that ask for identical offsets."""
    for name, entry in connector.layer.items():
        if (name == _KEY or name.startswith(f"{_KEY}.")) and entry.value.strip().lower() == IDENTICAL:
            yield entry


def _meet(offsets: PerTopic[Any], policy: PerTopic[Any]) -> bool:
    """Whether a topic may have identical offsets and a policy that leaves its records out.

    Names are looked up in both; expressions are compared by their text.
    """
    rules = [*offsets.rules, *policy.rules]
    names = {name for rule in rules if rule.name for name in spelled_out((rule.pattern,))}
    values = [(offsets.for_topic(name), policy.for_topic(name)) for name in names]
    patterns = {rule.pattern for rule in rules if not rule.name}
    values += [(_value(offsets, pattern), _value(policy, pattern)) for pattern in patterns]
    return _loses((offsets.default, policy.default), *values)


def _value(setting: PerTopic[Any], pattern: str) -> Any:
    """The value of a setting for an expression, which may be the setting's default."""
    return next((rule.value for rule in setting.rules if rule.pattern == pattern), setting.default)


def _loses(*values: Collection[Any]) -> bool:
    """Whether a pair of values, of the offsets and of a policy, makes a record lose its offset."""
    return any(kind == IDENTICAL and policy in _LEAVING_OUT for kind, policy in values)
