"""The settings of a flow in the form for its copiers: without the settings that only the driver reads.

If two versions of a file have the same settings in this form, the copiers of a flow continue undisturbed.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from typing import Any

from twinlog.config.keys.key import UpdateMode
from twinlog.config.keys.table import live_fields
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import MAX_MESSAGE_BYTES
from twinlog.settings.flow import FlowSettings

_FIELDS = {own.name: own for own in fields(FlowSettings)}


def copiers_view(settings: FlowSettings) -> FlowSettings:
    """The same flow with defaults in place of settings that copiers ignore, and with the state of its switches."""
    unseen: dict[str, Any] = {"class_settings": ()}
    for name, (value, there) in live_fields().items():
        if value is not UpdateMode.AT_ONCE:
            continue
        if there is UpdateMode.AT_ONCE or getattr(settings, name) is not None:
            unseen[name] = _default(_FIELDS[name])
    if settings.config_property_filter_class is None and not config_filter_of(settings).accepts(MAX_MESSAGE_BYTES):
        # Of the settings of remote topics, copiers need only the limit of a batch.
        unseen["sync_topic_configs_interval_s"] = None
    return replace(settings, **unseen)


def _default(own: Field[Any]) -> Any:
    return own.default if own.default_factory is MISSING else own.default_factory()
