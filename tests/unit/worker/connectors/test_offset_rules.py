"""Which offsets may be stored for a connector, and what is said about others."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.errors import RequestError
from twinlog.settings.flow import ConnectorKind
from twinlog.worker.connectors.model import StoredOffset
from twinlog.worker.connectors.offset_rules import check_offsets

PLACES: dict[ConnectorKind, dict[str, Any]] = {
    "source": {"cluster": "a", "topic": "t", "partition": 0},
    "checkpoint": {"group": "g", "topic": "t", "partition": 0},
    "heartbeat": {"sourceClusterAlias": "a", "targetClusterAlias": "b"},
}
KINDS = list(PLACES)


def refusal(kind: ConnectorKind, partition: dict[str, Any], offset: dict[str, Any] | None) -> str | None:
    try:
        check_offsets(kind, [StoredOffset(PLACES[kind], {"offset": 0}), StoredOffset(partition, offset)])
    except RequestError as error:
        return error.message if error.status == 400 else f"{error.status}"
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_could_have_stored_is_taken(kind: ConnectorKind) -> None:
    assert refusal(kind, {**PLACES[kind], "rack": None}, {"offset": 0, "epoch": True}) is None
    assert refusal(kind, {**PLACES[kind], "partition": 2**31 - 1}, None) is None
    # Whatever is there can be removed.
    assert refusal(kind, {"any": 1.5}, None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_each_field_is_needed_with_its_type(kind: ConnectorKind) -> None:
    for field, value in PLACES[kind].items():
        without = {name: other for name, other in PLACES[kind].items() if name != field}
        said = refusal(kind, without, {"offset": 0})
        assert said is not None
        assert f"is missing the '{field}' key, which is required" in said
        for wrong in (None, "0" if isinstance(value, int) else 0, True, 0.5):
            said = refusal(kind, {**without, field: wrong}, {"offset": 0})
            assert said is not None
            assert f"for the '{field}' key, which must be " in said


@pytest.mark.parametrize("kind", ["source", "checkpoint"])
@pytest.mark.parametrize(("number", "why"), [(-1, "cannot be negative"), (2**31, "must be an integer")])
def test_partitions_have_bounds(kind: ConnectorKind, number: int, why: str) -> None:
    said = refusal(kind, {**PLACES[kind], "partition": number}, {"offset": 0})
    assert said is not None
    assert why in said
    assert f"partition={number}" in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [{}, {"position": 0}, *({"offset": one} for one in (None, "0", True, 0.0, -1))])
def test_offsets_are_whole_numbers(kind: ConnectorKind, offset: dict[str, Any]) -> None:
    said = refusal(kind, PLACES[kind], offset)
    assert said is not None
    assert said.startswith("Source offset {")
    assert "'offset' key" in said


def test_only_a_source_connector_has_positions() -> None:
    assert refusal("source", PLACES["source"], {"offset": 2**63 - 1}) is None
    for kind in ("checkpoint", "heartbeat"):
        said = refusal(kind, PLACES[kind], {"offset": 1})
        assert said is not None
        assert said.endswith("; the only accepted value is 0")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "what"), [({}, "MAP"), ([1], "ARRAY"), (2**63, "64 bits"), (-(2**63) - 1, "64 bits")]
)
def test_only_plain_values_are_stored(kind: ConnectorKind, value: Any, what: str) -> None:
    for said in (
        refusal(kind, {**PLACES[kind], "x": value}, None),
        refusal(kind, PLACES[kind], {"offset": 0, "x": value}),
    ):
        assert said is not None
        assert said.startswith("Offsets may only contain primitive types as values, but field x contains ")
        assert what in said


def test_messages_name_fields_as_java_does() -> None:
    assert refusal("source", {"topic": "t", "partition": -1, "cluster": "a"}, {"offset": 1}) == (
        "Source partition {cluster=a, partition=-1, topic=t} has an invalid value -1 for the 'partition' key, "
        "which cannot be negative"
    )
    assert refusal("source", PLACES["source"], {"offset": None}) == (
        "Source offset {offset=null} for source partition {cluster=a, partition=0, topic=t} has an invalid value null "
        "for the 'offset' key, which must be an integer"
    )
