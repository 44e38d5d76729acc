"""Flows within one cluster, for which two aliases stand: copies lie beside the topics that they are made of.

MirrorMaker 2 runs such flows, to rename topics or to keep a copy of them. What a flow has written there is a topic of
its source as well, so that it copies for ever where a name does not show that a topic is a copy.
"""

from __future__ import annotations

from twinlog.mirror.topology.topology import Topology
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings
from twinlog.settings.written import key_of


def obstacle(flow: FlowSettings, topology: Topology) -> str | None:
    """Why a flow must not run within one cluster, with the way out; None where it recognises all its copies."""
    policy, separator = key_of(FlowSettings, "policy"), key_of(FlowSettings, "separator")
    if flow.policy == "identity":
        return f"{policy} keeps names, so that each topic would be copied onto itself for ever; use the default policy"
    if flow.policy == "custom":
        return f"{policy} is a class of your own, which may not recognise its copies; use the default policy"
    if not flow.source or not flow.separator or flow.separator in flow.source:
        return (
            f"with the alias {flow.source!r} and {separator} = {flow.separator!r} the flow does not recognise its own "
            "copies and would copy them for ever; choose an alias without the separator in it"
        )
    dead = "" if flow.transform is None else flow.transform.dead_letter_topic
    if dead and topology.mirrors(TopicName(dead)):
        return (
            f"the flow would mirror its dead-letter topic {dead}, and write records there that fail again; write its "
            f"name in {key_of(FlowSettings, 'topics_exclude')}"
        )
    return None
