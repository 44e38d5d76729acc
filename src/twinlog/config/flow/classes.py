"""Python classes that a file names for naming and choosing topics, groups and settings of topics."""

from __future__ import annotations

from twinlog.config.keys.table import SECURITY
from twinlog.config.text.reading import Problems, Reading
from twinlog.config.text.resolve import FlowLayers
from twinlog.errors import ConfigError
from twinlog.mirror.topology.plugins import config_filter_of, group_filter_of, policy_of, topic_filter_of
from twinlog.model.types import TopicName
from twinlog.settings.flow import CustomClass, FlowSettings

_CLIENTS_OWN = ("source.", "target.", "consumer.", "producer.", "admin.", "config.providers")
_SAMPLE = TopicName("orders")


def custom_class(connector: Reading, name: str) -> CustomClass | None:
    """The Python class that is named, if it is one and its name is of the right form."""
    path = connector.text(name)
    entry = connector.layer.get(name)
    return None if entry is None or ":" not in path else CustomClass(path, entry.key, entry.file, entry.line)


def class_settings(layers: FlowLayers) -> tuple[tuple[str, str], ...]:
    """What a class of the user's is configured with; never a password, they belong to clients."""
    own = {
        name: entry.value
        for name, entry in layers.connector.items()
        if not name.startswith(_CLIENTS_OWN) and name not in SECURITY.exact and entry.unresolved is None
    }
    aliases = {"source.cluster.alias": layers.source_name, "target.cluster.alias": layers.target_name}
    return tuple(sorted({**own, **aliases}.items()))


def try_classes(flow: FlowSettings, problems: Problems) -> None:
    """Loads the user's classes and asks each once, so that one of the wrong form is found before anything starts."""

    def policy() -> None:
        naming = policy_of(flow)
        remote = naming.remote_name(flow.source_name, _SAMPLE)
        naming.source_alias(remote)
        naming.upstream_name(remote)

    def settings() -> None:
        filter_ = config_filter_of(flow)
        filter_.accepts("retention.ms")
        filter_.accepts_default("retention.ms")

    trials = (
        policy,
        settings,
        lambda: topic_filter_of(flow).accepts(_SAMPLE),
        lambda: group_filter_of(flow).accepts("g"),
    )
    for trial in trials:
        try:
            trial()
        except ConfigError as error:
            for problem in error.problems:
                problems.add(problem)
