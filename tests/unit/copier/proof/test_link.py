"""What a copier builds of batches has their records; anything else is refused before it is sent."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given

from tests.any_log import logs, rules
from tests.source_log import New, SourceLog
from twinlog.batches.arrow.bodies import gathered
from twinlog.batches.prepare import prepare
from twinlog.batches.split import isolate, split_append
from twinlog.copier.proof.link import FEW_RECORDS, require_equal, require_parts
from twinlog.errors import DifferenceError, TwinlogError
from twinlog.kafka.producer.appends import Append, CopyRules, PreparedFetch
from twinlog.kafka.record.batch import HEADER_SIZE
from twinlog.kafka.record.varint import read_varint
from twinlog.model.types import SourceOffset


@pytest.mark.parametrize("few", [0, FEW_RECORDS], ids=["as arrays", "one by one"])
@given(logs(), rules)
def test_whatever_is_built_has_the_records_of_its_source(few: int, log: SourceLog, how: CopyRules) -> None:
    fetched = log.fetch()
    try:
        prepared = prepare(fetched, SourceOffset(0), how, log.aborted())
    except TwinlogError:
        return
    with mock.patch("twinlog.copier.proof.link.FEW_RECORDS", few):
        require_equal(prepared.appends, fetched, log.aborted() if how.read_committed else None)


def merged(size: int = 7) -> tuple[SourceLog, PreparedFetch]:
    """Records with values of so many bytes; bodies of up to 12 bytes are compared otherwise than longer bodies."""
    log = SourceLog(5)
    for number in range(9):
        log.batch([New(1_000 + number, (b"value %d" % number).ljust(size))])
    prepared = prepare(log.fetch(), SourceOffset(5), CopyRules(), None)
    assert all(type(append.data) is not memoryview for append in prepared.appends)
    return log, prepared


@pytest.mark.parametrize("size", [7, 10, 90])
@pytest.mark.parametrize("few", [0, FEW_RECORDS], ids=["as arrays", "one by one"])
@pytest.mark.parametrize("seed", range(20))
def test_a_changed_byte_is_found(seed: int, few: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinlog.copier.proof.link.FEW_RECORDS", few)
    log, prepared = merged(size)
    (append,) = prepared.appends
    chance = random.Random(seed)
    # Consumers skip the attributes of a record, its second byte.
    unused, at = set(), HEADER_SIZE
    while at < len(append.data):
        length, past = read_varint(append.data, at)
        unused.add(past)
        at = past + length
    place = chance.choice([one for one in range(HEADER_SIZE, len(append.data)) if one not in unused])
    append.data[place] ^= 1 << chance.randrange(8)
    # Of a length the decoder itself refuses some.
    with pytest.raises(TwinlogError):
        require_equal(prepared.appends, log.fetch(), None)


@pytest.mark.parametrize("size", [7, 90])
def test_the_bodies_are_compared_in_place(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way, which copies all bodies, is for short bodies and for differences."""
    monkeypatch.setattr("twinlog.copier.proof.link.FEW_RECORDS", 0)
    log, prepared = merged(size)
    with mock.patch("twinlog.copier.proof.link.gathered", wraps=gathered) as copied:
        require_equal(prepared.appends, log.fetch(), None)
    assert copied.called == (size == 7)


def test_the_comparison_in_place_loads_no_functions_of_arrow() -> None:
    """Their import would take the copier as long as the comparison of many megabytes."""
    code = (
        "import sys; from tests.unit.copier.proof.test_link import merged; from twinlog.copier.proof import link; "
        "link.FEW_RECORDS = 0; log, prepared = merged(90); link.require_equal(prepared.appends, log.fetch(), None); "
        "print('pyarrow' in sys.modules, 'pyarrow.compute' in sys.modules)"
    )
    root = Path(__file__).parents[4]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout == "True False\n"


def test_the_first_other_record_is_named() -> None:
    log, prepared = merged()
    (append,) = prepared.appends
    at = bytes(append.data).index(b"value 6")
    append.data[at] ^= 1
    with pytest.raises(DifferenceError, match="at source offset 11;") as refused:
        require_equal(prepared.appends, log.fetch(), None)
    assert (refused.value.kind, refused.value.source_offset) == ("built", 11)


def test_parts_have_the_records_of_the_whole() -> None:
    log = SourceLog(0)
    log.batch([New(1_000 + number, b"v" * 100) for number in range(20)])
    (append,) = prepare(log.fetch(), SourceOffset(0), CopyRules(), None).appends
    whole = Append(bytearray(append.data), append.count, append.first_source_offset, *_rest(append))
    for parts in (
        split_append(whole, replace(CopyRules(), max_batch_bytes=700)),
        isolate(whole, (3, 7), CopyRules()),
    ):
        assert len(parts) > 2
        require_parts(whole, parts)
        with pytest.raises(DifferenceError):
            require_parts(whole, parts[:-1])
        parts[1], parts[2] = parts[2], parts[1]


def _rest(append: Append) -> tuple[SourceOffset, int, tuple[tuple[SourceOffset, int], ...]]:
    return append.next_source_offset, append.max_timestamp, append.spans
