"""Layers of a flow are those MirrorMaker 2 composes from the same file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from twinlog.config.properties import read_properties
from twinlog.config.text.entries import parse_file
from twinlog.config.text.precedence import Layer, resolve_flow
from twinlog.model.types import Alias

RECORDED = Path(__file__).parents[3] / "recorded"
ROWS = [json.loads(line) for line in (RECORDED / "precedence.jsonl").read_text("utf-8").splitlines()]

# MirrorMaker 2 fills these where the file leaves a gap; twinlog keeps gaps, its key table knows the defaults.
FILLED = {
    "connector": {"name", "connector.class", "source.cluster.alias", "target.cluster.alias", "enabled"},
    "worker": {
        "client.id",
        "group.id",
        "offset.storage.topic",
        "status.storage.topic",
        "config.storage.topic",
        "key.converter",
        "value.converter",
        "header.converter",
    },
    "consumer": {"enable.auto.commit", "auto.offset.reset"},
    "source_admin": set[str](),
    "target_admin": set[str](),
}


def values(layer: Layer) -> dict[str, str]:
    return {name: entry.value for name, entry in layer.items()}


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_layers_are_those_of_mirrormaker(row: Mapping[str, Any]) -> None:
    file = RECORDED / "precedence" / row["file"]
    layers = resolve_flow(parse_file(read_properties(file), str(file)), Alias("A"), Alias("B"))
    for part, filled in FILLED.items():
        ours = values(getattr(layers, part))
        theirs = {name: value for name, value in row[part].items() if name in ours or name not in filled}
        if part not in {"connector", "worker"}:
            # The client id is composed later, of the user's part and the client's role.
            ours.pop("client.id", None)
            theirs.pop("client.id", None)
        assert ours == theirs, part


@pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])
def test_the_writing_producer_is_the_workers(row: Mapping[str, Any]) -> None:
    file = RECORDED / "precedence" / row["file"]
    layers = resolve_flow(parse_file(read_properties(file), str(file)), Alias("A"), Alias("B"))
    worker, connector = row["worker"], row["connector"]
    theirs = {"bootstrap.servers": worker["bootstrap.servers"]} if "bootstrap.servers" in worker else {}
    for prefix, settings in (("producer.", worker), ("producer.override.", connector)):
        theirs |= {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    assert values(layers.producer) == theirs
