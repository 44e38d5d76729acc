"""Settings that are legal and surely not meant: each becomes a warning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from twinlog.config.text.parse import ParsedFile
from twinlog.config.text.resolve import FlowLayers
from twinlog.settings.flow import FlowSettings

_NAME = re.compile(r"[\w.-]+")


def warn_of_lost_overrides(layers: FlowLayers, found: ParsedFile) -> None:
    """`S->T.consumer.x` is weaker than `S.consumer.x` (MirrorConnectorConfig), which nobody expects."""
    name = f"{layers.source}->{layers.target}"
    for setting, entry in found.flows.get((layers.source, layers.target), {}).items():
        if not setting.startswith(("consumer.", "admin.")):
            continue
        winner = layers.connector.get(f"source.{setting}")
        if winner is not None and winner.value != entry.value:
            found.warnings.append(
                f"{entry.place}: {entry.key} loses against {winner.named}; write {name}.source.{setting}"
            )


def warn_of_cycles(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Ways in which records could come back to where they began."""
    directions = {(flow.source, flow.target): flow for flow in flows}
    for flow in flows:
        warnings.extend(
            f"flow {flow.name}: the alias {alias} contains the separator {flow.separator!r}, so remote topic "
            "names cannot be taken apart and loops between clusters are not noticed; choose another separator"
            for alias in (flow.source_name, flow.target_name)
            if flow.policy == "default" and flow.separator and flow.separator in alias
        )
        if flow.source_admin.client.shares_servers(flow.target_admin.client):
            warnings.append(
                f"flow {flow.name}: source and target share a bootstrap server; if they are one cluster, copies are "
                "made beside their topics, and where they would be copied again, the flow does not run"
            )
        back = directions.get((flow.target, flow.source))
        if back is not None and flow.source < flow.target and (flow.keeps_names or back.keeps_names):
            warnings.append(
                f"flows {flow.name} and {back.name}: where topic names are kept ({_keeping(flow, back)}), a topic that "
                "both mirror would be copied in a cycle for ever and is left out by both; keep `topics` of the two "
                "apart"
            )


def warn_of_conflicts(flows: Sequence[FlowSettings], warnings: list[str]) -> None:
    """Topics that two flows name and that both would write, because both keep names. Patterns show while they run."""
    for one, other in combinations(flows, 2):
        if one.target != other.target or not (one.keeps_names and other.keeps_names):
            continue
        if one.topic_filter_class is not None or other.topic_filter_class is not None:
            continue
        both = [name for name in one.topics if name in other.topics and _NAME.fullmatch(name)]
        both = [name for name in both if name not in {*one.topics_exclude, *other.topics_exclude}]
        if both:
            warnings.append(
                f"flows {one.name} and {other.name}: both would write {', '.join(both)} on {one.target}, because topic "
                f"names are kept ({_keeping(one, other)}); where both clusters have the topic, only one of the two "
                "copies it; keep `topics` of the two apart"
            )


def _keeping(one: FlowSettings, other: FlowSettings) -> str:
    """What keeps the names of two flows."""
    kept = "identity" in {one.policy, other.policy}
    return "identity policy" if kept else "no separator and no source.cluster.alias"
