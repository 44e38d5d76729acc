"""Names of topics that twinlog keeps beside those of MirrorMaker 2."""

from __future__ import annotations

from twinlog.model.types import Alias


def progress_topic(source: Alias) -> str:
    """The topic of reports about flows from `source`, on their target.

    It begins with `mm2` and ends with `internal`, so that neither twinlog nor MirrorMaker 2 mirrors it.
    """
    return f"mm2-twinlog-progress.{source}.internal"
