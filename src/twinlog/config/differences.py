"""What a file does here and did otherwise in MirrorMaker 2 of a Kafka release, for `twinlog check --was`.

Only differences that the file has are named: a default of MirrorMaker 2 counts where the file leaves the key out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twinlog.config.flow.shared_topics import SharedTopics
from twinlog.config.keys.key import Effect, Key, Release
from twinlog.config.keys.scope import connector_key
from twinlog.config.load import LoadedFile
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.precedence import FlowLayers, resolve_flow
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigNote, MistakeKind
from twinlog.mirror.topology.topology import topology_of
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

OLDEST: Release = (3, 0)
NEWEST: Release = (4, 3)

_NARROWER: Release = (4, 0)
"""Since this release topics are internal by fewer names (KIP-1074)."""

_OLD_EXCLUDE = r".*[\\-\\.]internal, .*\\.replica, __.*"
_ENDINGS = (".internal", "-internal")


@dataclass(frozen=True, slots=True)
class _LongerInterval:
    """A default of MirrorMaker 2 that is longer than the default here; `field` is None if the work is off."""

    key: str
    field: str
    theirs: int
    work: str


_INTERVALS = (
    _LongerInterval("refresh.topics.interval.seconds", "refresh_topics_interval_s", 600, "looks for new topics"),
    _LongerInterval("refresh.groups.interval.seconds", "refresh_groups_interval_s", 600, "looks for new groups"),
    _LongerInterval(
        "sync.topic.configs.interval.seconds", "sync_topic_configs_interval_s", 600, "compares settings of topics"
    ),
    _LongerInterval("sync.topic.acls.interval.seconds", "sync_topic_acls_interval_s", 600, "compares ACLs of topics"),
    _LongerInterval(
        "emit.checkpoints.interval.seconds", "emit_checkpoints_interval_s", 60, "translates offsets of groups"
    ),
    _LongerInterval(
        "sync.group.offsets.interval.seconds", "sync_group_offsets_interval_s", 60, "commits offsets of groups"
    ),
)


def differences(loaded: LoadedFile, was: Release) -> list[ConfigNote]:
    """A note for each difference from MirrorMaker 2 of the release `was`, in the order of the file; notes about absent
    keys come last."""
    flows = [flow for flow in loaded.config.flows if flow.enabled]
    layers = {flow.name: resolve_flow(loaded.parsed, flow.source, flow.target) for flow in flows}
    reading = _Differences(loaded.parsed.file, flows, layers, was)
    found = dict.fromkeys(
        (
            *reading.keys(),
            *reading.intervals(),
            *reading.internal_topics(),
            *reading.copying(),
            *reading.shared_topics(),
        )
    )
    return sorted(found, key=lambda note: (note.line is None, note.line or 0))


@dataclass(frozen=True, slots=True)
class _Differences:
    file: str
    flows: list[FlowSettings]
    layers: dict[str, FlowLayers]
    was: Release

    @property
    def _release(self) -> str:
        return f"MirrorMaker 2 of Kafka {self.was[0]}.{self.was[1]}"

    def keys(self) -> Iterator[ConfigNote]:
        """Keys that count here, and that the release ignored."""
        for layers in self.layers.values():
            for name, entry in layers.connector.items():
                key, _ = connector_key(name)
                if key is None or key.effect is not Effect.WORKS or key.shown is None or not entry.line:
                    continue
                if not key.shown.exists_in(self.was):
                    yield self._at(entry, f"{self._release} ignored this key ({_when(key)}); here it counts")

    def intervals(self) -> Iterator[ConfigNote]:
        """Work that repeats more often, where the file leaves the interval out."""
        for interval in _INTERVALS:
            ours = {getattr(flow, interval.field) for flow in self.flows if self._lacks(flow, interval.key)} - {None}
            for seconds in sorted(ours):
                text = (
                    f"twinlog {interval.work} every {seconds:g} s, {self._release} every {interval.theirs} s; only "
                    f"differences are written; to keep the old interval write {interval.key} = {interval.theirs}"
                )
                yield self._absent(interval.key, text)

    def _lacks(self, flow: FlowSettings, key: str) -> bool:
        return key not in self.layers[flow.name].connector

    def internal_topics(self) -> Iterator[ConfigNote]:
        """Topics that the release took for internal topics by the ends of their names."""
        if self.was >= _NARROWER:
            return
        for flow in self.flows:
            layer = self.layers[flow.name].connector
            try:
                rule = topology_of(flow)
                samples = [TopicName(f"orders{ending}") for ending in _ENDINGS]
                named = [name for name in rule.topics.include if name.endswith(_ENDINGS) and name.isascii()]
                mirrored = [name for name in (*named, *samples) if rule.mirrors(TopicName(name))]
            except ConfigError:
                continue
            if mirrored:
                text = (
                    f"{flow.name} mirrors topics that end in .internal or -internal, for example "
                    f"{listed(mirrored[:2])}; {self._release} took them for internal topics and left them out; to "
                    f"leave them out write topics.exclude = {_OLD_EXCLUDE}"
                )
                entry = layer.get("topics.exclude") or layer.get("topics.blacklist")
                yield self._absent("topics.exclude", text) if entry is None else self._at(entry, text)

    def copying(self) -> Iterator[ConfigNote]:
        """Batches, first offsets and metrics."""
        for flow in self.flows:
            layers = self.layers[flow.name]
            if "compression.type" not in layers.producer:
                key = f"{flow.target}.producer.compression.type"
                text = (
                    f"batches keep the codec of the source, {self._release} wrote them uncompressed; to write them "
                    f"uncompressed add {key} = none"
                )
                yield self._absent(key, text)
            reset = layers.consumer.get("auto.offset.reset")
            if reset is not None and flow.consumer.auto_offset_reset.kind == "latest":
                text = (
                    "a topic or partition that appears later begins at its earliest record; "
                    f"{self._release} passed over the records that came until it found the topic"
                )
                yield self._at(reset, text)
        if self.flows and self.was < _NARROWER and self._has_new_tag():
            text = (
                f"metrics have the tag source; {self._release} left it out unless add.source.alias.to.metrics = true; "
                "for the old names write add.source.alias.to.metrics = false"
            )
            yield self._absent("add.source.alias.to.metrics", text)

    def shared_topics(self) -> Iterator[ConfigNote]:
        """Remote topics of two sources, which the file allows."""
        shared = SharedTopics(self.file, self.flows, self.layers, first_writes=False)
        for mistake in shared.find(()):
            if mistake.kind is MistakeKind.SAME_TOPIC:
                text = f"{mistake.text}; {self._release} mixed the records of both sources in this topic"
                yield ConfigNote(mistake.file, mistake.line, mistake.key, text, kind=MistakeKind.OTHER_THAN_BEFORE)

    def _has_new_tag(self) -> bool:
        return any(self._lacks(flow, "add.source.alias.to.metrics") for flow in self.flows)

    def _at(self, entry: PropertyEntry, text: str) -> ConfigNote:
        return ConfigNote(entry.file, entry.line, entry.key, text, kind=MistakeKind.OTHER_THAN_BEFORE)

    def _absent(self, key: str, text: str) -> ConfigNote:
        return ConfigNote(self.file, None, key, text, kind=MistakeKind.OTHER_THAN_BEFORE)


def _when(key: Key) -> str:
    assert key.shown is not None
    since, until = key.shown.since, key.shown.until
    return f"dropped in {until[0]}.{until[1]}" if until <= NEWEST else f"new in {since[0]}.{since[1]}"
