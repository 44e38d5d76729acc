"""Connect's transforms as those of a flow: before a function of the user's, and what becomes of what they fail on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.source_log import New, SourceLog
from twinlog.errors import TransformError
from twinlog.kafka.producer.appends import CopyRules, PreparedFetch
from twinlog.kafka.record.batch import read_batch
from twinlog.kafka.record.records import decode_records
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.transform import SmtChain, SmtConverter, SmtStage, TransformSettings
from twinlog.transforms.build import build
from twinlog.transforms.fetch_transformer import FetchTransformer

NOW = 1_700_000_000_000
SOURCE, REMOTE = TopicPartition(TopicName("shop"), 1), TopicPartition(TopicName("north.shop"), 1)
MASK = SmtStage(
    "mask",
    "MaskField",
    "value",
    (("fields", ("iban",)), ("replace.null.with.default", True), ("replacement", "***")),
)
SETTINGS = TransformSettings(smts=SmtChain((MASK,), value=SmtConverter("json")))


def prepared(settings: TransformSettings, *values: bytes) -> PreparedFetch:
    log = SourceLog()
    log.batch([New(NOW, value, b"k") for value in values])
    road = FetchTransformer(build(settings), settings, "a->b", SOURCE, REMOTE, lambda _: 3, lambda: 0.0)
    return road.prepare(log.fetch(), 0, CopyRules())


def values(found: PreparedFetch) -> list[bytes | None]:
    made: list[bytes | None] = []
    for append in found.appends:
        view = memoryview(append.data)
        batch = read_batch(view, 0)
        assert batch is not None
        made += [record.value for record in decode_records(view, batch)]
    return made


def test_they_come_before_the_function() -> None:
    both = replace(SETTINGS, function="tests.transforms:shouting")
    assert values(prepared(both, b'{"iban":"DE1","a":1}')) == [b'{"iban":"***","a":1}!']


def test_a_record_that_they_fail_on_stops_the_flow_and_the_error_names_both() -> None:
    with pytest.raises(TransformError) as caught:
        prepared(SETTINGS, b"{", b"{}")
    assert "the transform mask (MaskField$Value) fails on the record at offset 0 of shop-1" in str(caught.value)
    assert "mask (MaskField$Value): the value is invalid JSON" in str(caught.value)


def test_with_tolerance_others_are_copied() -> None:
    found = prepared(replace(SETTINGS, tolerance="all"), b'{"iban":1}', b"{", b'{"iban":"x"}')
    # A number takes no text.
    assert values(found) == [b'{"iban":"***"}']
    assert [one.source_offset for one in found.failed] == [0, 1]
