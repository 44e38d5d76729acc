"""The settings of a flow that runs and whose file has changed: what acts at once is new, all else is as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import fields, replace
from typing import Any

from twinlog.config.keys.live_keys import Takes, live_fields, takes
from twinlog.config.keys.table import CONNECTOR
from twinlog.settings.failed_records import FailedRecordSettings
from twinlog.settings.flow import CustomClass, FlowSettings


def merged(running: FlowSettings, written: FlowSettings) -> FlowSettings:
    """What the flow is to run with, of what it runs with and what its file says now; both are enabled, or neither."""
    live = {name: getattr(written, name) for name in live_fields()}
    failed = {one.name: getattr(written.failed_records, one.name) for one in fields(FailedRecordSettings)}
    transform = None if running.transform is None else replace(running.transform, **failed)
    return replace(running, **live, transform=transform, class_settings=_class_settings(running, written))


def heartbeats_only(running: FlowSettings, written: FlowSettings) -> FlowSettings:
    """A flow that is not enabled any more; it reaches its target as it did when it copied."""
    return replace(
        written,
        consumer=running.consumer,
        producer=running.producer,
        source_admin=running.source_admin,
        target_admin=running.target_admin,
        worker_group_id=running.worker_group_id,
    )


def differs(one: FlowSettings, other: FlowSettings, fields: Iterable[str]) -> bool:
    """Whether some of these fields have other values; in which line a class stands does not count."""
    return any(_plain(getattr(one, name)) != _plain(getattr(other, name)) for name in fields)


def reaches_others(one: FlowSettings, other: FlowSettings) -> Collection[str]:
    """The clusters that the two would reach in another way: other servers, another login or other clients."""
    sides = {"source": ("consumer", "source_admin"), "target": ("producer", "target_admin")}
    return [getattr(one, side) for side, clients in sides.items() if differs(one, other, clients)]


def _plain(value: Any) -> Any:
    return value.path if isinstance(value, CustomClass) else value


def _class_settings(running: FlowSettings, written: FlowSettings) -> tuple[tuple[str, str], ...]:
    """What a class of the user's is configured with: keys that need a restart stay as they were, also its own ones."""
    if not running.class_settings:
        return ()
    live = {
        name: value
        for name, value in written.class_settings
        if (key := CONNECTOR.find(name)) is not None and takes(key) not in (Takes.RESTART, Takes.NOTHING)
    }
    kept = {
        name: value
        for name, value in running.class_settings
        if (key := CONNECTOR.find(name)) is None or takes(key) in (Takes.RESTART, Takes.NOTHING)
    }
    return tuple(sorted({**kept, **live}.items()))
