"""The group that a distributed worker belongs to, and the topics that the group keeps its state in."""

from __future__ import annotations

from twinlog.config.text.reading import Problems, Reading, plain_fields
from twinlog.errors import ConfigProblem
from twinlog.settings.worker import GroupSettings, StorageTopic

_KINDS = {
    "config": "the connectors' configurations",
    "offset": "the connectors' positions",
    "status": "the states of connectors and tasks",
}
_OWN = ("topic", "partitions", "replication.factor", "cleanup.policy", "file.filename")
"""Below `offset.storage.` and its kin: what is no setting of the topic, or always the same."""


def read_group(reading: Reading, file: str, problems: Problems, warnings: list[str]) -> GroupSettings:
    """The settings of the group; what is wrong becomes a problem. One with a missing key names `file`."""
    if "group.id" not in reading.layer:
        expected = "the name that all workers of the group have"
        problems.add(ConfigProblem(file, None, "group.id", "missing", expected))
    topics = {kind: _topic(reading, kind, file, problems) for kind in _KINDS}
    _check_apart(reading, problems)
    _warn_of_fixed(reading, warnings)
    _check_algorithms(reading, problems)
    return GroupSettings(
        **plain_fields(GroupSettings, reading),
        group_id=reading.text("group.id"),
        config_storage=topics["config"],
        offset_storage=topics["offset"],
        status_storage=topics["status"],
        key_size=reading.number_if_any("inter.worker.key.size"),
    )


def _topic(reading: Reading, kind: str, file: str, problems: Problems) -> StorageTopic:
    prefix = f"{kind}.storage."
    name = f"{prefix}topic"
    if name not in reading.layer:
        problems.add(ConfigProblem(file, None, name, "missing", f"the topic that keeps {_KINDS[kind]}"))
    more = [key.removeprefix(prefix) for key in reading.layer if key.startswith(prefix)]
    return StorageTopic(
        reading.text(name),
        # Connect writes all configurations in one order.
        1 if kind == "config" else reading.number(f"{prefix}partitions"),
        reading.number(f"{prefix}replication.factor"),
        tuple(
            (setting, entry.value.strip())
            for setting in more
            if setting not in _OWN and (entry := reading.written(prefix + setting)) is not None
        ),
    )


def _check_apart(reading: Reading, problems: Problems) -> None:
    """Each of the topics is read as a whole, so none may hold what belongs to another."""
    seen: dict[str, str] = {}
    for kind in _KINDS:
        entry = reading.layer.get(f"{kind}.storage.topic")
        if entry is None or entry.unresolved is not None:
            continue
        other = seen.setdefault(entry.value.strip(), entry.key)
        if other != entry.key:
            problems.refuse(entry, f"the topic of {other}", "a topic of its own")


def _warn_of_fixed(reading: Reading, warnings: list[str]) -> None:
    """What is always the same, as in Connect (Kafka class DistributedConfig)."""
    fixed = {f"{kind}.storage.cleanup.policy": "compact" for kind in _KINDS} | {"config.storage.partitions": "1"}
    for name, always in fixed.items():
        entry = reading.layer.get(name)
        if entry is not None and entry.value.strip() != always:
            warnings.append(f"{entry.place}: {name}: {entry.value.strip()!r} has no effect; it is always {always}")


def _check_algorithms(reading: Reading, problems: Problems) -> None:
    """A worker must accept what it signs itself (Kafka class DistributedConfig)."""
    signs = reading.text("inter.worker.signature.algorithm")
    accepted = reading.layer.get("inter.worker.verification.algorithms")
    written = accepted or reading.layer.get("inter.worker.signature.algorithm")
    if written is not None and signs not in reading.items("inter.worker.verification.algorithms"):
        expected = f"inter.worker.verification.algorithms with {signs}, which inter.worker.signature.algorithm names"
        problems.refuse(written, repr(written.value), expected)
