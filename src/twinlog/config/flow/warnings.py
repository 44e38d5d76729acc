"""Warnings about the flows of a file: names of topics, cycles of topics, and settings that lose.

MirrorMaker 2 takes `source.cluster.alias`, `target.cluster.alias` and `replication.policy.separator` as they are
written, also empty. Before MirrorMaker 2 had an identity policy, users kept names by leaving the alias of the source
and the separator empty, and many files still do (Kafka classes MirrorMakerConfig and DefaultReplicationPolicy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from twinlog.config.keys.connector import IDENTITY_POLICIES
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.config_reader import ConfigReader
from twinlog.config.text.entries import ParsedFile
from twinlog.config.text.precedence import FlowLayers
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.settings.flow import FlowSettings, PolicyName

_SEPARATOR = "replication.policy.separator"
_CONFIGS = "sync.topic.configs.enabled"
_SOURCE, _TARGET = "source.cluster.alias", "target.cluster.alias"


def follows_settings(layers: FlowLayers, separator: str, policy: PolicyName) -> bool:
    """Whether settings of a remote topic are kept in step once it exists.

    MirrorMaker 2 keeps the settings of remote topics that it recognises by their names. If the separator is empty,
    MirrorMaker 2 takes the first letter for an alias. Then it takes every remote topic for an original, unless the
    alias of the source is a single letter (Kafka class MirrorSourceConnector, topicsBeingReplicated).
    """
    return policy != "default" or bool(separator) or len(layers.source_name) == 1


def warn_of_naming(
    layers: FlowLayers, connector: ConfigReader, flow: FlowSettings, warnings: list[ConfigWarning]
) -> None:
    """Warn of names that an enabled flow gives or reads otherwise than its file seems to ask for."""
    warnings.extend(_other_aliases(layers, flow))
    if flow.policy == "identity" and flow.source_name == flow.target_name:
        key = _TARGET if _TARGET in layers.connector else _SOURCE
        text = (
            f"{flow.name} calls source and target {str(flow.source_name)!r}, so that the identity policy takes every "
            f"topic for a copy from the target: only heartbeats are mirrored, as in MirrorMaker 2; leave out {_TARGET}"
        )
        warnings.append(_naming(layers, key, text, MistakeKind.SAME_ALIAS))
    if flow.policy != "default" or flow.separator:
        return
    if len(flow.target_name) == 1:
        text = (
            f"with an empty separator each letter of a name counts for an alias: {flow.name} leaves out each topic "
            f"whose name has {str(flow.target_name)!r} before its last letter, as in MirrorMaker 2; write "
            f"{layers.names.connector(_TARGET)} with a longer alias, or with an empty alias"
        )
        warnings.append(_naming(layers, _SEPARATOR, text, MistakeKind.EMPTY_SEPARATOR))
    if not follows_settings(layers, flow.separator, flow.policy) and connector.flag(_CONFIGS):
        leave = f"leave out {_TARGET}" if flow.source_name == flow.target_name else "leave the rest as it is"
        identity = f"add replication.policy.class = {IDENTITY_POLICIES[0]}, and {leave}"
        text = (
            f"with an empty separator {flow.name} creates a remote topic with the settings of its source, and leaves "
            "them as they are afterwards, as in MirrorMaker 2; to have them kept in step, "
            f"{identity if flow.keeps_names else 'write a separator'}; to silence this warning, add {_CONFIGS} = false"
        )
        warnings.append(_naming(layers, _SEPARATOR, text, MistakeKind.EMPTY_SEPARATOR))


def warn_of_shared_syncs(
    flows: Sequence[FlowSettings], layers: Mapping[str, FlowLayers], warnings: list[ConfigWarning]
) -> None:
    """Warn of two flows that write offset syncs of the same partitions to the same topic, as their aliases are
    equal."""
    for one, other in combinations(flows, 2):
        if (
            one.emit_offset_syncs
            and other.emit_offset_syncs
            and (_syncs_cluster(one), one.offset_syncs_topic) == (_syncs_cluster(other), other.offset_syncs_topic)
        ):
            key = _TARGET if one.offset_syncs_location == "source" else _SOURCE
            text = (
                f"flows {one.name} and {other.name} write offset syncs to the same topic, {one.offset_syncs_topic} on "
                f"{_syncs_cluster(one)}, because they have the same {key}: offsets of groups are translated wrongly "
                f"by MirrorMaker 2 then; write {one.name}.{key} and {other.name}.{key} with an alias each"
            )
            warnings.append(_naming(layers[other.name], key, text, MistakeKind.SHARED_SYNCS))


def _syncs_cluster(flow: FlowSettings) -> str:
    return flow.source if flow.offset_syncs_location == "source" else flow.target


def _other_aliases(layers: FlowLayers, flow: FlowSettings) -> Iterator[ConfigWarning]:
    """A warning for each alias that differs from the file's and from ""; the effect of an empty alias is obvious."""
    source, target = flow.source_name, flow.target_name
    if source and source != flow.source:
        text = (
            f"remote topics and stored positions are named after {str(source)!r} in {flow.name} instead of "
            f"{str(flow.source)!r}, as in MirrorMaker 2"
        )
        yield _naming(layers, _SOURCE, text, MistakeKind.OTHER_ALIAS)
    if target and target != flow.target:
        text = (
            f"offset syncs and heartbeats are named after {str(target)!r} in {flow.name} instead of "
            f"{str(flow.target)!r}, as in MirrorMaker 2"
        )
        yield _naming(layers, _TARGET, text, MistakeKind.OTHER_ALIAS)


def _naming(layers: FlowLayers, key: str, text: str, kind: MistakeKind) -> ConfigWarning:
    return layers.connector[key].warning(text, kind)


def warn_of_lost_overrides(layers: FlowLayers, found: ParsedFile) -> None:
    """`S->T.consumer.x` is weaker than `S.consumer.x` (MirrorConnectorConfig), contrary to expectation."""
    name = f"{layers.source}->{layers.target}"
    for setting, entry in found.flows.get((layers.source, layers.target), {}).items():
        if not setting.startswith(("consumer.", "admin.")):
            continue
        winner = layers.connector.get(f"source.{setting}")
        if winner is not None and winner.value != entry.value:
            text = f"loses against {winner.named}; write {name}.source.{setting}"
            found.warnings.append(entry.warning(text, MistakeKind.IGNORED))


def warn_of_returns(
    flows: Sequence[FlowSettings], layers: Mapping[str, FlowLayers], file: str, warnings: list[ConfigWarning]
) -> None:
    """Warn of aliases and clusters by which records could return to their first cluster."""
    for flow in flows:
        connector = layers[flow.name].connector
        for alias in (flow.source_name, flow.target_name):
            if flow.policy == "default" and flow.separator and flow.separator in alias:
                entry = connector.get(_SEPARATOR) or connector.get("enabled")
                text = (
                    f"flow {flow.name}: the alias {alias} contains the separator {flow.separator!r}, so remote topic "
                    "names are ambiguous and loops between clusters stay hidden; choose another separator"
                )
                warnings.append(_at(entry, file, text, MistakeKind.CYCLE))
        if flow.source_admin.client.shares_servers(flow.target_admin.client):
            text = (
                f"flow {flow.name}: source and target share a bootstrap server; if they are the same cluster, copies "
                "are made beside their topics, and the flow refuses to run if it would copy them again"
            )
            warnings.append(_at(connector.get("target.cluster.bootstrap.servers"), file, text, MistakeKind.CYCLE))


def _at(entry: PropertyEntry | None, file: str, text: str, kind: MistakeKind) -> ConfigWarning:
    return ConfigWarning(file, None, "", text, kind=kind) if entry is None else entry.warning(text, kind)
