"""Keeps the settings of remote topics like their source's while a flow runs; changes only settings that differ.

The rules are from Kafka class MirrorSourceConnector (syncTopicConfigs, with incremental changes by KIP-894), which
sends every setting of every topic each time. Here the target is asked first, and a refusal for a topic leaves the
changes of other topics in effect.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import alter_configs, describe_configs, replace_configs, supports_incremental_alter
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.mirror.topics.changes import TopicPair
from twinlog.mirror.topology.filters import DefaultConfigPropertyFilter
from twinlog.mirror.topology.plugins import config_filter_of
from twinlog.model.topics import ConfigChange, ConfigEntry, ConfigSource, Refusal, listed, own_settings
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)

_MADE = (ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)
_REFUSED_SETTING = (Code.INVALID_CONFIG, Code.INVALID_REQUEST, Code.POLICY_VIOLATION)

Settings = Mapping[str, str | None]
"""The settings wanted on a remote topic; None for the target's own default."""

_Changes = dict[TopicName, list[ConfigChange]]
_Described = Mapping[TopicName, Sequence[ConfigEntry]]
_Own = dict[TopicName, dict[str, str | None]]


def wanted_settings(source: Sequence[ConfigEntry], filter_: DefaultConfigPropertyFilter) -> dict[str, str | None]:
    """The settings that a remote topic should have, by the settings of its source.

    A setting outside the result is left alone: excluded, read-only, sensitive, or from the static file of the source's
    broker.
    """
    wanted: dict[str, str | None] = {}
    for entry in source:
        if entry.read_only or entry.sensitive or not filter_.accepts(entry.name):
            continue
        if entry.source in _MADE:
            wanted[entry.name] = entry.value
        elif entry.source == ConfigSource.DEFAULT:
            wanted[entry.name] = entry.value if filter_.accepts_default(entry.name) else None
    return wanted


def settings_at_creation(source: Sequence[ConfigEntry], filter_: DefaultConfigPropertyFilter) -> dict[str, str]:
    """The settings for a remote topic's creation: `wanted_settings`, apart from the target's defaults."""
    return {name: value for name, value in wanted_settings(source, filter_).items() if value is not None}


def differences(wanted: Settings, target: Sequence[ConfigEntry]) -> list[ConfigChange]:
    """The changes for a remote topic. A wanted value that equals the default is set all the same: defaults change."""
    own = own_settings(target)
    changes = []
    for name, value in wanted.items():
        if value is None:
            if name in own:
                changes.append(ConfigChange(name, None))
        elif own.get(name) != value:
            changes.append(ConfigChange(name, value))
    return changes


class ConfigSync:
    """The settings of a flow's remote topics; `run` looks once."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._filter = config_filter_of(settings)
        self._in_step: dict[TopicName, dict[str, str]] = {}
        """The settings that each remote topic and its source had in common at the last look."""
        self._dropped: set[tuple[TopicName, ConfigChange]] = set()
        """Changes that the target refuses; each change is tried and reported once."""
        self._troubles: list[ClusterError] = []
        self._replaces = False
        self._validate_only = False

    def run(self, pairs: Sequence[TopicPair]) -> dict[TopicName, list[ConfigChange]]:
        """Bring the settings of remote topics up to date; returns the changes.

        Vanished topics are left out.

        Raises RefusedError if a permission is missing on some topics. Raises ClusterError if changes of some topics
        failed now, or a cluster is silent. The remaining topics are up to date then.
        """
        self._troubles = []
        source = self._describe(self._source, [pair.source.name for pair in pairs])
        target = self._describe(self._target, [pair.remote for pair in pairs if pair.source.name in source])
        changes = self.decide_changes(pairs, source, target)
        before = {topic: own_settings(target[topic]) for topic in changes}
        made = self._apply(changes, {topic: dict(own) for topic, own in before.items()}) if changes else {}
        for topic, changed in made.items():
            changes_text = ", ".join(shown(change, before[topic]) for change in changed)
            log.info("%s: settings of %s: %s", self._settings.name, topic, changes_text)
        if self._troubles:
            text = "; ".join(str(trouble) for trouble in self._troubles)
            refused = all(isinstance(trouble, RefusedError) for trouble in self._troubles)
            raise RefusedError(text) if refused else ClusterError(text)
        return made

    def decide_changes(
        self, pairs: Iterable[TopicPair], source: _Described, target: _Described
    ) -> dict[TopicName, list[ConfigChange]]:
        """The changes of each remote topic, by the settings of both clusters' topics; only computes."""
        found = {
            pair.remote: self._changes(pair.remote, source[pair.source.name], target[pair.remote])
            for pair in pairs
            if pair.source.name in source and pair.remote in target
        }
        return {remote: changes for remote, changes in found.items() if changes}

    def rehearse(self, changes: _Changes, target: _Described) -> tuple[_Changes, list[ClusterError]]:
        """The changes of `changes` that `run` would make, and the errors of the remaining changes.

        The target only validates the changes.
        """
        self._troubles, self._validate_only = [], True
        try:
            return self._apply(changes, {topic: own_settings(target[topic]) for topic in changes}), self._troubles
        finally:
            self._validate_only = False

    def _describe(self, admin: ClusterAdmin, topics: Sequence[TopicName]) -> dict[TopicName, list[ConfigEntry]]:
        found, unread = admin.call(describe_configs, admin.client, topics)
        missing = [topic for topic, code in unread.items() if error_codes.refused(code)]
        if missing:
            self._troubles.append(
                admin.client.lacks("DESCRIBE_CONFIGS", f"topic {listed(missing)}", "keeping settings in step")
            )
        return found

    def _changes(
        self, remote: TopicName, source: Sequence[ConfigEntry], target: Sequence[ConfigEntry]
    ) -> list[ConfigChange]:
        wanted = wanted_settings(source, self._filter)
        own = own_settings(target)
        before = self._in_step.get(remote, {})
        # The source topic lost its own setting, and the value of its broker's file is left out. The remote topic still
        # has the copy. It is removed if it was known as a copy; MirrorMaker 2 would leave it for ever.
        stale = {
            entry.name: before[entry.name]
            for entry in source
            if entry.source == ConfigSource.STATIC_BROKER
            and entry.name in before
            and own.get(entry.name) == before[entry.name]
        }
        in_step = {name: value for name, value in own.items() if value is not None and wanted.get(name) == value}
        self._in_step[remote] = in_step | stale
        wanted |= dict.fromkeys(stale)
        return [change for change in differences(wanted, target) if (remote, change) not in self._dropped]

    def _apply(self, changes: _Changes, own: _Own) -> _Changes:
        """Send changes, and after a refusal the accepted settings; returns the changes that were made."""
        refused = self._send(changes, own)
        made = {topic: wanted for topic, wanted in changes.items() if topic not in refused}
        wrong = [topic for topic, refusal in refused.items() if refusal.code in _REFUSED_SETTING]
        if wrong:
            made |= self._apply_singly({topic: changes[topic] for topic in wrong}, own)
        reasons: dict[str, list[TopicName]] = defaultdict(list)
        for topic, refusal in refused.items():
            if topic not in wrong and refusal.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
                reasons["" if error_codes.refused(refusal.code) else refusal.text].append(topic)
        for text, topics in reasons.items():
            error = ClusterError(f"cluster {self._target.alias}: settings of {listed(topics)} not changed: {text}")
            lacks = self._target.client.lacks
            self._troubles.append(
                error if text else lacks("ALTER_CONFIGS", f"topic {listed(topics)}", "keeping settings in step")
            )
        return made

    def _apply_singly(self, changes: _Changes, own: _Own) -> _Changes:
        """Find the changes that the target refuses: a setting at a time, for all these topics at once."""
        made: _Changes = defaultdict(list)
        reasons: dict[tuple[str, str], list[TopicName]] = defaultdict(list)
        for number in range(max(len(wanted) for wanted in changes.values())):
            single = {topic: wanted[number] for topic, wanted in changes.items() if number < len(wanted)}
            refused = self._send({topic: [change] for topic, change in single.items()}, own)
            for topic, change in single.items():
                if topic not in refused:
                    made[topic].append(change)
                elif refused[topic].code in _REFUSED_SETTING:
                    self._dropped.add((topic, change))
                    reasons[change.name, refused[topic].text].append(topic)
        for (setting, text), topics in reasons.items():
            log.warning(
                "TW-TOPIC-12: %s: the target refuses %s of %s, which is left out from now on: %s",
                self._settings.name,
                setting,
                listed(topics),
                text,
            )
        return made

    def _send(self, changes: _Changes, own: _Own) -> dict[TopicName, Refusal]:
        admin, mode = self._target, self._settings.alter_configs
        self._replaces = self._replaces or mode == "never"
        if not self._replaces and not supports_incremental_alter(admin.client):
            if mode == "required":
                key = key_of(FlowSettings, "alter_configs")
                text = f"it lacks the request for single changes (KIP-339), which {key} requires"
                return {topic: Refusal(Code.UNSUPPORTED_VERSION, text) for topic in changes}
            log.info(
                "%s: cluster %s cannot change single settings, as no Kafka before 2.3 can: all own settings of a topic "
                "are sent together",
                *(self._settings.name, self._target.alias),
            )
            self._replaces = True
        if not self._replaces:
            return admin.call(partial(alter_configs, admin.client, changes, validate_only=self._validate_only))
        # Settings of the target alone stay: the request resets each unnamed setting.
        whole = {topic: _changed(own[topic], wanted) for topic, wanted in changes.items()}
        refused = admin.call(partial(replace_configs, admin.client, whole, validate_only=self._validate_only))
        own.update((topic, settings) for topic, settings in whole.items() if topic not in refused)
        return refused


def _changed(own: Mapping[str, str | None], changes: Sequence[ConfigChange]) -> dict[str, str | None]:
    settings = {**own, **{change.name: change.value for change in changes}}
    return {name: value for name, value in settings.items() if value is not None}


def shown(change: ConfigChange, before: Mapping[str, str | None]) -> str:
    """A change of a topic whose own settings were `before`, for a line: the setting, old and new value."""
    old = before.get(change.name)
    new = "the target's default" if change.value is None else change.value
    return f"{change.name} {'default' if old is None else old} -> {new}"
