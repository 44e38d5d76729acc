"""The settings of a running flow, and the settings with which it shall continue after a change of its file.

Copiers get a form of the settings that leaves out keys which only the driver reads. If two versions of a file have the
same settings in this form, the copiers of a flow continue undisturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, replace
from typing import Any

from twinlog.config.keys.key import UpdateMode
from twinlog.config.keys.table import live_fields
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import MAX_MESSAGE_BYTES
from twinlog.settings.flow import FlowSettings
from twinlog.worker.flow.flow_jobs import FlowJobs
from twinlog.worker.topics.topic_refresh import TopicRefresh

JOBS_END_S = 1.0


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


class FlowChanges:
    """Any thread requests a change, the flow's thread takes it over; `flows` are all flows of the file."""

    def __init__(self, settings: FlowSettings, flows: Sequence[FlowSettings]) -> None:
        self.settings = settings
        self.copiers = copiers_view(settings)
        """The settings in the form for copiers; copiers begin again with each change of these."""
        self._flows = flows
        self._asked: tuple[FlowSettings, Sequence[FlowSettings]] | None = None

    @property
    def reverse(self) -> FlowSettings | None:
        """The flow back, if the file has it."""
        back = (self.settings.target, self.settings.source)
        return next((flow for flow in self._flows if (flow.source, flow.target) == back), None)

    def request_change(self, settings: FlowSettings, flows: Sequence[FlowSettings]) -> None:
        """Request that the flow continues with other settings of its own, or of other flows."""
        self._asked = settings, flows

    @property
    def pending(self) -> bool:
        """Whether the flow still has to take over a requested change."""
        return self._asked is not None

    def take_over(self, topics: TopicRefresh, refresh: Callable[[], None], jobs: FlowJobs) -> None:
        """Take the requested change over, while copying continues: `refresh` updates the topics, and jobs begin again.

        Raises ClusterError or RefusedError, as `refresh` does; the next call does the remaining part of the change.
        """
        asked = self._asked
        if asked is None:
            return
        settings, flows = asked
        topics.change_settings(settings, flows)
        topics.create_internal_topics()
        refresh()
        before = self.settings, self.reverse
        self._flows = flows
        if before != (settings, self.reverse):
            jobs.change_settings(settings, self.reverse, JOBS_END_S)
        self.settings, self.copiers = settings, copiers_view(settings)
        if self._asked is asked:
            self._asked = None
