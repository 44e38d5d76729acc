"""Names of topics that twinlog and MirrorMaker 2 keep for themselves and their users' programs."""

from __future__ import annotations

from twinlog.model.types import Alias, TopicName

HEARTBEATS = TopicName("heartbeats")
"""Where all flows to a cluster write their heartbeats (KIP-382)."""


def progress_topic(source: Alias) -> str:
    """The topic of reports about flows from `source`, on their target.

    It begins with `mm2` and ends with `internal`, so that neither twinlog nor MirrorMaker 2 mirrors it.
    """
    return f"mm2-twinlog-progress.{source}.internal"


RELOADS = TopicName("mm2-twinlog-reload.internal")
"""Where `twinlog reload` asks processes that run flows to a cluster to read their files again; they answer there."""


def control_topic(source: Alias) -> str:
    """The topic of what operators ask of single topics of flows from `source`, on their target; named so that nobody
    mirrors it, either."""
    return f"mm2-twinlog-control.{source}.internal"
