"""Checks that the offsets of a request have the form of a connector's own offsets.

The checks and their messages follow MirrorMaker 2's connectors (class MirrorUtils) and Connect (OffsetUtils).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinlog.errors import RequestError
from twinlog.settings.flow import ConnectorKind
from twinlog.worker.connectors.model import OffsetPart, StoredOffset

_TEXTS = {
    "source": ("cluster", "topic"),
    "checkpoint": ("group", "topic"),
    "heartbeat": ("sourceClusterAlias", "targetClusterAlias"),
}
_ORDER = ("cluster", "partition", "topic", "group")
"""The order of the fields in messages, as in Java's maps."""
_LARGEST_INT = 2**31 - 1
_LONG = range(-(2**63), 2**63)


def check_offsets(kind: ConnectorKind, offsets: Sequence[StoredOffset]) -> None:
    """Raises RequestError with 400 for the first offset that a connector of this kind refuses.

    Each stored offset may be deleted. The offset of a checkpoint or heartbeat connector is always 0.
    """
    for one in offsets:
        _check_primitives(one.partition)
        if one.offset is None:
            continue
        _check_primitives(one.offset)
        for name in _TEXTS[kind]:
            _check_text(one.partition, name)
        if kind != "heartbeat":
            _check_partition(one.partition)
        _check_offset(one.partition, one.offset, only_zero=kind != "source")


def _check_primitives(part: OffsetPart) -> None:
    for name, value in part.items():
        if isinstance(value, Mapping | list):
            found = "MAP" if isinstance(value, Mapping) else "ARRAY"
        elif isinstance(value, int) and value not in _LONG:
            found = "a number beyond 64 bits"
        else:
            continue
        raise RequestError(
            400, f"Offsets may only contain primitive types as values, but field {name} contains {found}"
        )


def _check_text(partition: OffsetPart, name: str) -> None:
    value = _required(partition, name)
    if not isinstance(value, str):
        raise _wrong(partition, name, value, ", which must be a string")


def _check_partition(partition: OffsetPart) -> None:
    value = _required(partition, "partition")
    if not isinstance(value, int) or isinstance(value, bool) or value > _LARGEST_INT:
        raise _wrong(partition, "partition", value, ", which must be an integer")
    if value < 0:
        raise _wrong(partition, "partition", value, ", which cannot be negative")


def _check_offset(partition: OffsetPart, offset: OffsetPart, *, only_zero: bool) -> None:
    where = f"Source offset {_shown(offset)} for source partition {_shown(partition)}"
    if "offset" not in offset:
        raise RequestError(400, f"{where} is missing the 'offset' key, which is required")
    value = offset["offset"]
    wrong = None
    if not isinstance(value, int) or isinstance(value, bool):
        wrong = ", which must be an integer"
    elif only_zero and value:
        wrong = "; the only accepted value is 0"
    elif value < 0:
        wrong = ", which cannot be negative"
    if wrong is not None:
        raise RequestError(400, f"{where} has an invalid value {_text(value)} for the 'offset' key{wrong}")


def _required(partition: OffsetPart, name: str) -> object:
    if name not in partition:
        raise RequestError(400, f"Source partition {_shown(partition)} is missing the '{name}' key, which is required")
    return partition[name]


def _wrong(partition: OffsetPart, name: str, value: object, why: str) -> RequestError:
    return RequestError(
        400, f"Source partition {_shown(partition)} has an invalid value {_text(value)} for the '{name}' key{why}"
    )


def _shown(part: OffsetPart) -> str:
    """The text of a map, as Java writes it."""
    names = sorted(part, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    return "{" + ", ".join(f"{name}={_text(part[name])}" for name in names) + "}"


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
