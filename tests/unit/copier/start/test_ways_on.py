"""How a partition that is held for one record is copied further, as the operator reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.copier.partition.batch_limit import way_on
from twinlog.errors import RecordTooLargeError, RefusedRecordError, TransformError
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.per_topic import PerTopic

SOURCE, REMOTE = TopicPartition(TopicName("clicks"), 3), TopicPartition(TopicName("a.clicks"), 3)
LEFT_OUT = "or, to leave this record out, run twinlog topics skip-to FILE clicks-3 --flow a:b --to-offset 813"


@pytest.mark.parametrize(
    ("error", "change", "policy"),
    [
        (
            RecordTooLargeError("", source_offset=812),
            "raise max.message.bytes of a.clicks, or of clicks if the sync of settings resets it",
            "oversized",
        ),
        (
            RefusedRecordError("", source_offset=812),
            "change the setting of a.clicks that refuses it",
            "refused",
        ),
    ],
)
def test_a_record_is_let_in_or_left_out(error: RecordTooLargeError, change: str, policy: str) -> None:
    key = f"twinlog.{policy}.record.policy.clicks = skip or dead-letter"
    assert way_on(error, SOURCE, REMOTE, SETTINGS) == (
        f"{change}; {LEFT_OUT}; or, to leave such records out, set a->b.{key} and run twinlog reload FILE"
    )
    of_connector = replace(SETTINGS, kind="Source")
    assert way_on(error, SOURCE, REMOTE, of_connector) == f"{change}; or, to leave such records out, set {key}"
    error.source_offset = -1
    assert "skip-to" not in (way_on(error, SOURCE, REMOTE, SETTINGS) or "")


def test_what_is_no_trouble_of_one_record_has_its_own_way_on() -> None:
    assert way_on(TransformError(""), SOURCE, REMOTE, SETTINGS) is None


def test_where_offsets_are_kept_no_record_may_be_left_out() -> None:
    keeping = replace(SETTINGS, offsets=PerTopic("identical"), sync_topic_configs_interval_s=None)
    error = RecordTooLargeError("", source_offset=812)
    assert way_on(error, SOURCE, REMOTE, keeping) == "raise max.message.bytes of a.clicks"
