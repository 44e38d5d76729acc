"""Connect's transforms here beside Kafka's own classes: every record becomes the same, or is refused by both.

No broker runs; one Java process answers through pipes.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.jvm.command import jvm_command
from tests.drawn_smts import KINDS, drawn_config, drawn_records
from tests.integration.java.smt_tool import Refused, SmtRecord, SmtTool
from twinlog.batches.arrow.arrays import schema
from twinlog.config.keys.scope import ConnectorKeyNames
from twinlog.config.keys.table import CONNECTOR
from twinlog.config.properties import PropertyEntry
from twinlog.config.smt.chain import read_chain
from twinlog.config.text.config_reader import ConfigReader, Problems
from twinlog.config.text.precedence import FlowLayers
from twinlog.errors import TransformError
from twinlog.model.types import Alias
from twinlog.settings.transform import SmtChain, SmtConverter
from twinlog.transforms.smt.chain import smt_transform
from twinlog.transforms.smt.data import read

TOOL = Path(__file__).parents[1] / "java" / "SmtTool.java"
CHAINS_OF_A_KIND = 6
"""That both take, and that let at least one record through; others are drawn beside them."""

RECORDS = 12
MEANT = (
    # Connect writes Struct{a=1}.
    "the text form takes a single field",
    # Java takes the hyphen for a sign, and the month for the one before January.
    "'2024-02-29' differs from yyyyMMdd",
    # Connect fails when the record is written, unless another transform has removed the field by then.
    "schemaless JSON lacks",
    # Connect writes "Infinity" as text, which its own converter does not read again.
    "a number lacks a form in JSON",
    "is outside of the years 1582 to 9999",
    # Java leaves out the higher bits.
    "is beyond the days that Connect can count to",
)
"""Reasons for which records are refused here, and not by Connect."""

STRICTER = (
    # Connect takes these, and fails at each record.
    "a pattern of SimpleDateFormat",
    "SetSchemaMetadata, but schemas are off",
    "a replacement: ",
)
"""What is refused here before anything starts, and not by Connect."""


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmtTool]:
    log = tmp_path_factory.mktemp("smt-tool") / "stderr"
    with log.open("w") as errors:
        process = subprocess.Popen(
            jvm_command("256m", "quick", str(TOOL)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        )
        yield SmtTool(process)
        process.terminate()
        process.communicate(timeout=60)


def chain_of(config: Mapping[str, str]) -> tuple[SmtChain | None, list[str]]:
    layer = {name: PropertyEntry(name, value, "connector c", None, value) for name, value in config.items()}
    problems = Problems([])
    a, b = Alias("a"), Alias("b")
    layers = FlowLayers(a, b, layer, {}, {}, {}, {}, {}, ConnectorKeyNames(a, b), kind="source")
    chain = read_chain(ConfigReader(layer, CONNECTOR, problems), layers, "c", [])
    return chain, [str(problem) for problem in problems.all()]


def rows_of(records: Sequence[SmtRecord]) -> Any:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": record.key,
                "value": record.value,
                "topic": record.topic,
                "partition": record.partition,
                "offset": offset,
                "timestamp": record.timestamp * 1000,
                "timestampType": 0,
                "headers": [{"key": name, "value": content} for name, content in record.headers] or None,
            }
            for offset, record in enumerate(records)
        ],
        schema=schema(headers=True),
    )


def records_of(rows: Any) -> dict[int, SmtRecord]:
    times = rows.column("timestamp").cast(pa.int64()).to_pylist()
    return {
        row["offset"]: SmtRecord(
            row["topic"],
            row["partition"],
            row["key"],
            row["value"],
            time // 1000,
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for row, time in zip(rows.drop_columns(["timestamp"]).to_pylist(), times, strict=True)
    }


def transformed(chain: SmtChain, records: Sequence[SmtRecord]) -> list[SmtRecord | Refused | None]:
    """Each record by itself; those that are not refused once more together, with the same result."""
    transform = smt_transform(chain)
    rows = rows_of(records)
    found: list[SmtRecord | Refused | None] = []
    for number in range(len(records)):
        try:
            found.append(records_of(transform(rows.slice(number, 1))).get(number))
        except TransformError as error:
            found.append(Refused(error.message))
    good = [number for number, result in enumerate(found) if not isinstance(result, Refused)]
    together = transform(rows.take(pa.array(good, pa.int64())))
    assert together.schema == schema(headers=True)
    together.validate(full=True)
    assert records_of(together) == {number: found[number] for number in good if found[number] is not None}
    return found


def comparable(result: SmtRecord | Refused | None, chain: SmtChain) -> Any:
    if not isinstance(result, SmtRecord):
        return "refused" if isinstance(result, Refused) else result
    headers = [(name, _header(content)) for name, content in result.headers]
    key, value = _data(chain.key, result.key), _data(chain.value, result.value)
    return (result.topic, result.partition, key, value, result.timestamp, headers)


def _header(content: bytes | None) -> object:
    # Java's maps have an order of their own.
    text = None if content is None else _rounded(content.decode("latin-1"))
    return sorted(text) if text is not None and text.startswith(("{", "[")) else text


def _rounded(text: str) -> str:
    """Java 17 writes some floats with a digit more than they need."""
    return re.sub(r"-?\d+\.\d+([eE][+-]?\d+)?", lambda found: f"{float(found[0]):.6e}", text)


def _data(converter: SmtConverter | None, content: bytes | None) -> object:
    if converter is None or converter.kind == "text" or content is None:
        return content
    try:
        data = read(converter, content, "value")
    except TransformError:
        return content
    return _rounded(json.dumps([data.schema, data.value], sort_keys=True))


@pytest.mark.drawn
@pytest.mark.parametrize("kind", KINDS)
def test_a_record_becomes_what_connect_makes_of_it(java: SmtTool, chance: random.Random, kind: str) -> None:
    chains = 0
    while chains < CHAINS_OF_A_KIND:
        config = drawn_config(chance, kind)
        chain, problems = chain_of(config)
        records = drawn_records(chance, config, RECORDS)
        theirs = java.run(_used(config, chain), records)
        if isinstance(theirs, str):
            assert problems, f"Connect refuses {config}: {theirs}"
            continue
        if problems:
            assert all(any(words in problem for words in STRICTER) for problem in problems), (config, problems)
            continue
        assert chain is not None
        ours = transformed(chain, records)
        for record, mine, his in zip(records, ours, theirs, strict=True):
            if isinstance(mine, Refused) and any(words in mine.reason for words in MEANT):
                continue
            if isinstance(his, Refused) and his.reason.startswith("unreadable"):
                # Nothing is read here for which no transform asks.
                continue
            assert comparable(mine, chain) == comparable(his, chain), (config, record, mine, his)
        chains += any(isinstance(mine, SmtRecord) for mine in ours)


def _used(config: Mapping[str, str], chain: SmtChain | None) -> dict[str, str]:
    """Without converters that no transform asks for: Connect's then read bytes, as of MirrorMaker 2's records."""
    unused = [f"{side}.converter" for side in ("key", "value") if chain and getattr(chain, side) is None]
    return {name: value for name, value in config.items() if not name.startswith(tuple(unused))}
