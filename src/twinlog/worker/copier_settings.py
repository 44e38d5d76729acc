"""The settings of a flow as its copiers get them: without what the driver alone reads.

Two versions of a file that differ in nothing else leave the copiers of a flow as they are.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, replace
from typing import Any

from twinlog.config.keys.live_keys import UpdateMode, live_fields
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import MAX_MESSAGE_BYTES
from twinlog.settings.flow import FlowSettings

_FIELDS = {own.name: own for own in fields(FlowSettings)}


def copiers_view(settings: FlowSettings) -> FlowSettings:
    """The same flow with defaults in place of what copiers have no use for, and for its switches what they are."""
    unseen: dict[str, Any] = {"class_settings": ()}
    for name, (value, there) in live_fields().items():
        if value is not UpdateMode.AT_ONCE:
            continue
        if there is UpdateMode.AT_ONCE or getattr(settings, name) is not None:
            unseen[name] = _default(_FIELDS[name])
    if settings.config_property_filter_class is None and not config_filter_of(settings).accepts(MAX_MESSAGE_BYTES):
        # All that copiers await of the settings of remote topics is the limit of a batch.
        unseen["sync_topic_configs_interval_s"] = None
    return replace(settings, **unseen)


def _default(own: Field[Any]) -> Any:
    return own.default if own.default_factory is MISSING else own.default_factory()
