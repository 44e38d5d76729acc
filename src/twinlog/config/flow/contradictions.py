"""Settings of one flow that contradict each other.

MirrorMaker 2 checks them per connector (classes MirrorSourceConnector, MirrorCheckpointConfig, DistributedHerder), and
its process then logs the refusal of that connector and goes on with the others. Here a refused source connector is an
error, because nothing would be copied; a refused checkpoint connector is a warning, and its work is off.
"""

from __future__ import annotations

from twinlog.config.keys.names import KeyNames
from twinlog.config.text.reading import Reading

_SYNCS = "emit.offset-syncs.enabled"


def check_offset_syncs(connector: Reading) -> None:
    """Refuses settings of offset syncs where offset syncs are turned off."""
    off = connector.written(_SYNCS)
    if off is None or connector.flag(_SYNCS):
        return
    beside = next((entry for name, entry in connector.layer.items() if name.startswith("offset-syncs.topic.")), None)
    if beside is not None:
        found = f"{off.value.strip()!r} together with {beside.named}"
        connector.problems.refuse(off, found, "one of the two; MirrorMaker 2 refuses to copy with both")


def translates_offsets(connector: Reading, flow: str, warnings: list[str]) -> tuple[bool, bool]:
    """Whether the flow writes checkpoints, and whether it commits offsets of groups, which needs checkpoints.

    Adds a warning for each of the two that the file turns on and the flow cannot do.
    """
    checkpoints = (
        connector.flag("emit.checkpoints.enabled") and connector.number("emit.checkpoints.interval.seconds") >= 0
    )
    commits = connector.flag("sync.group.offsets.enabled")
    if checkpoints and not connector.flag(_SYNCS):
        off = connector.layer[_SYNCS]
        warnings.append(
            f"{off.place}: {off.key}: without offset syncs the flow {flow} writes no checkpoints and commits no "
            "offsets of groups, as in MirrorMaker 2; to silence this warning add emit.checkpoints.enabled = false"
        )
        return False, False
    if commits and not checkpoints:
        asked = connector.layer["sync.group.offsets.enabled"]
        warnings.append(
            f"{asked.place}: {asked.key}: offsets of groups are committed from checkpoints, and the flow {flow} writes "
            "none; set emit.checkpoints.enabled = true"
        )
    return checkpoints, checkpoints and commits


def check_exactly_once(
    connector: Reading, worker: Reading, isolation: str, names: KeyNames, warnings: list[str]
) -> None:
    """Refuses a demand for exactly-once copying that the rest does not fulfil; `isolation` is the source consumer's."""
    mode = worker.text("exactly.once.source.support")
    committed = isolation == "read_committed"
    boundary = connector.written("transaction.boundary")
    if boundary is not None and connector.text("transaction.boundary") == "connector":
        connector.problems.refuse(
            boundary, repr(boundary.value), "poll or interval; MirrorMaker 2 has no boundaries of its own"
        )
    demand = connector.written("exactly.once.support")
    if demand is not None and connector.text("exactly.once.support") == "required":
        missing = [
            f"{names.worker('exactly.once.source.support')} = enabled" if mode != "enabled" else "",
            f"{names.source_consumer('isolation.level')} = read_committed" if not committed else "",
        ]
        needed = " and ".join(text for text in missing if text)
        if needed:
            connector.problems.refuse(demand, repr(demand.value), needed)
    elif mode == "enabled" and not committed:
        switch = worker.layer["exactly.once.source.support"]
        warnings.append(
            f"{switch.place}: {switch.key}: {names.source}->{names.target} also copies records of open and aborted "
            f"transactions; write {names.source_consumer('isolation.level')} = read_committed"
        )
