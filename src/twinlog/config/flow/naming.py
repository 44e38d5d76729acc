"""The names of topics in a flow: by the policy's class, the separator, and aliases that may differ from the file's.

MirrorMaker 2 takes `source.cluster.alias`, `target.cluster.alias` and `replication.policy.separator` as they are
written, also empty. Before MirrorMaker 2 had an identity policy, users kept names by leaving the alias of the source
and the separator empty, and many files still do (Kafka classes MirrorMakerConfig and DefaultReplicationPolicy).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from twinlog.config.keys.connector import IDENTITY_POLICIES
from twinlog.config.text.reading import ConfigReader
from twinlog.config.text.resolve import FlowLayers
from twinlog.settings.flow import FlowSettings, PolicyName

_SEPARATOR = "replication.policy.separator"
_CONFIGS = "sync.topic.configs.enabled"
_SOURCE, _TARGET = "source.cluster.alias", "target.cluster.alias"


def follows_settings(layers: FlowLayers, separator: str, policy: PolicyName) -> bool:
    """Whether settings of a remote topic are kept in step once it exists.

    MirrorMaker 2 keeps the settings of remote topics that it recognises by their names. If the separator is empty,
    MirrorMaker 2 takes the first letter for an alias. Then it recognises no remote topic, unless the alias of the
    source is one letter (Kafka class MirrorSourceConnector, topicsBeingReplicated).
    """
    return policy != "default" or bool(separator) or len(layers.source_name) == 1


def warn_of_naming(layers: FlowLayers, connector: ConfigReader, flow: FlowSettings, warnings: list[str]) -> None:
    """Warn of names that an enabled flow gives or reads otherwise than its file seems to ask for."""
    warnings.extend(_other_aliases(layers, flow))
    if flow.policy == "identity" and flow.source_name == flow.target_name:
        key = _TARGET if _TARGET in layers.connector else _SOURCE
        warnings.append(
            f"{_place(layers, key)}: {flow.name} calls source and target {str(flow.source_name)!r}, so that the "
            "identity policy takes every topic for one that came from the target: only heartbeats are mirrored, as in "
            f"MirrorMaker 2; leave out {_TARGET}"
        )
    if flow.policy != "default" or flow.separator:
        return
    where = _place(layers, _SEPARATOR)
    if len(flow.target_name) == 1:
        warnings.append(
            f"{where}: without a separator each letter of a name counts for an alias: {flow.name} mirrors no topic "
            f"whose name has {str(flow.target_name)!r} before its last letter, as in MirrorMaker 2; write "
            f"{layers.names.connector(_TARGET)} with a longer alias, or with none"
        )
    if not follows_settings(layers, flow.separator, flow.policy) and connector.flag(_CONFIGS):
        leave = f"leave out {_TARGET}" if flow.source_name == flow.target_name else "leave the rest as it is"
        identity = f"add replication.policy.class = {IDENTITY_POLICIES[0]}, and {leave}"
        warnings.append(
            f"{where}: without a separator {flow.name} creates a remote topic with the settings of its source, and "
            "does not keep them in step afterwards, as in MirrorMaker 2; to have them kept in step, "
            f"{identity if flow.keeps_names else 'write a separator'}; to silence this warning, add {_CONFIGS} = false"
        )


def warn_of_shared_syncs(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Warn of two flows that write offset syncs of the same partitions to the same topic, as their aliases are
    equal."""
    for one, other in combinations(flows, 2):
        if (
            one.emit_offset_syncs
            and other.emit_offset_syncs
            and (_syncs_cluster(one), one.offset_syncs_topic) == (_syncs_cluster(other), other.offset_syncs_topic)
        ):
            key = _TARGET if one.offset_syncs_location == "source" else _SOURCE
            warnings.append(
                f"flows {one.name} and {other.name} write offset syncs to one topic, {one.offset_syncs_topic} on "
                f"{_syncs_cluster(one)}, because they have one {key}: offsets of groups are translated wrongly by "
                f"MirrorMaker 2 then; write {one.name}.{key} and {other.name}.{key} with an alias each"
            )


def _syncs_cluster(flow: FlowSettings) -> str:
    return flow.source if flow.offset_syncs_location == "source" else flow.target


def _other_aliases(layers: FlowLayers, flow: FlowSettings) -> Iterator[str]:
    """A warning for each alias that is neither empty nor the file's; the effect of an empty alias is obvious."""
    source, target = flow.source_name, flow.target_name
    if source and source != flow.source:
        yield (
            f"{_place(layers, _SOURCE)}: remote topics and stored positions are named after {str(source)!r} in "
            f"{flow.name}, and not after {str(flow.source)!r}, as in MirrorMaker 2"
        )
    if target and target != flow.target:
        yield (
            f"{_place(layers, _TARGET)}: offset syncs and heartbeats are named after {str(target)!r} in "
            f"{flow.name}, and not after {str(flow.target)!r}, as in MirrorMaker 2"
        )


def _place(layers: FlowLayers, key: str) -> str:
    entry = layers.connector[key]
    return f"{entry.place}: {entry.key}"
