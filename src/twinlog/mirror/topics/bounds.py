"""Keeps internal topics small, also topics that another program made: `internal_topics.py` has their bounds."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import (
    alter_command,
    alter_configs,
    describe_configs,
    replace_configs,
    supports_incremental_alter,
)
from twinlog.kafka.protocol import error_codes
from twinlog.mirror.topics.internal_topics import InternalTopic, internal_topics
from twinlog.model.topics import ConfigChange, ConfigEntry, ConfigSource, Refusal
from twinlog.model.types import Alias, TopicName
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


def too_loose(entries: Iterable[ConfigEntry], bounds: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The bounds that a topic exceeds: the bounds to set, and the bounds for which the topic has its own setting.

    A stricter setting stays, whatever its source; a setting unknown to the broker is left out.
    """
    missing: dict[str, str] = {}
    own: dict[str, str] = {}
    for entry in entries:
        bound = bounds.get(entry.name)
        if bound is None or entry.value is None or float(entry.value) <= float(bound):
            continue
        (own if entry.source == ConfigSource.TOPIC else missing)[entry.name] = bound
    return missing, own


class TopicBounds:
    """Sets missing bounds on existing internal topics of a flow; logs each topic once."""

    def __init__(self, settings: FlowSettings, source: ClusterAdmin, target: ClusterAdmin) -> None:
        self._settings = settings
        self._clusters = (source, target)
        self._done: set[tuple[Alias, TopicName]] = set()

    def set_missing_bounds(self) -> None:
        """Look at topics that were missing or silent before, and set their missing bounds.

        A topic's own settings stay. If the login lacks the permission, or the cluster refuses, the topic stays the same
        and a warning has the command. Raises ClusterError when a cluster is silent.
        """
        for admin in self._clusters:
            here = [
                topic
                for topic in internal_topics(self._settings)
                if topic.cluster == admin.alias and (topic.cluster, topic.name) not in self._done
            ]
            if not here:
                continue
            found, unread = admin.call(describe_configs, admin.client, [topic.name for topic in here])
            for topic in here:
                if topic.name in found:
                    self._bound(admin, topic, found[topic.name])
                elif error_codes.refused(unread.get(topic.name, 0)):
                    lacks = admin.client.lacks("DESCRIBE_CONFIGS", f"topic {topic.name}", "keeping it small")
                    log.info("%s: not looked at: %s", self._settings.name, lacks)
                else:
                    continue
                self._done.add((topic.cluster, topic.name))

    def _bound(self, admin: ClusterAdmin, topic: InternalTopic, entries: Sequence[ConfigEntry]) -> None:
        missing, own = too_loose(entries, topic.bounds)
        if own:
            settings = ", ".join(f"{entry.name}={entry.value}" for entry in entries if entry.name in own)
            self._warn(admin, topic, f"it has {settings} of its own, which is left alone", own)
        if not missing:
            return
        mine = {
            entry.name: entry.value
            for entry in entries
            if entry.source == ConfigSource.TOPIC and entry.value is not None
        }
        refused = self._alter(admin, topic, missing, mine)
        if refused is not None and not error_codes.refused(refused.code) and len(missing) > 1:
            # A managed cluster may refuse a single bound: then each bound is tried by itself.
            single = {name: self._alter(admin, topic, {name: value}, mine) for name, value in missing.items()}
            refused = next((refusal for refusal in single.values() if refusal is not None), None)
            left = {name: missing[name] for name, refusal in single.items() if refusal is not None}
        else:
            left = {} if refused is None else missing
        made = {name: value for name, value in missing.items() if name not in left}
        if made:
            before = {entry.name: entry.value for entry in entries}
            changes = ", ".join(f"{name} {before[name]} -> {value}" for name, value in made.items())
            log.info("%s: internal topic %s is kept small from now on: %s", self._settings.name, topic.name, changes)
        if refused is not None:
            why = refused.text
            if error_codes.refused(refused.code):
                why = str(admin.client.lacks("ALTER_CONFIGS", f"topic {topic.name}", "keeping it small"))
            self._warn(admin, topic, why, left)

    def _alter(
        self, admin: ClusterAdmin, topic: InternalTopic, wanted: Mapping[str, str], mine: dict[str, str]
    ) -> Refusal | None:
        """Set the wanted bounds, beside the topic's own settings (`mine`, with the bounds that were set before)."""
        if not supports_incremental_alter(admin.client):
            # The request resets each unnamed setting (before KIP-339).
            refused = admin.call(replace_configs, admin.client, {topic.name: {**mine, **wanted}}).get(topic.name)
            if refused is None:
                mine.update(wanted)
            return refused
        changes = {topic.name: [ConfigChange(name, value) for name, value in wanted.items()]}
        return admin.call(alter_configs, admin.client, changes).get(topic.name)

    def _warn(self, admin: ClusterAdmin, topic: InternalTopic, why: str, bounds: Mapping[str, str]) -> None:
        log.warning(
            "%s: cluster %s: internal topic %s may keep much that is overwritten, which makes every start slower: %s; "
            "to bound it: %s",
            self._settings.name,
            admin.alias,
            topic.name,
            why,
            alter_command(admin.client, topic.name, bounds),
        )
