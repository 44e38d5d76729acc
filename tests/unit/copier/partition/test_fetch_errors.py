"""What becomes of a fetch that the source did not answer with records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.copier.partitions import SilentCluster
from twinlog.copier.partition.life import CheckSource, FailPartition, PauseFetch
from twinlog.copier.partition.source_log import decide_fetch_error
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.protocol.fetch import PartitionResponse
from twinlog.model.types import SourceOffset, TopicName, TopicPartition

SOURCE = TopicPartition(TopicName("shop"), 0)


def decided(code: int = 0, **diverging: int) -> PauseFetch | CheckSource | FailPartition:
    answer: Any = PartitionResponse(0, code, 10, 10, 0, (), memoryview(b""), **diverging)
    client: Any = SilentCluster()
    return decide_fetch_error(answer, SOURCE, client)


@pytest.mark.parametrize("diverging", [{}, {"diverging_epoch": 2, "diverging_end": 7}])
def test_a_missing_permission_comes_before_anything_else(diverging: dict[str, int]) -> None:
    decision = decided(Code.TOPIC_AUTHORIZATION_FAILED, **diverging)
    assert isinstance(decision, FailPartition)
    assert str(decision.error) == "READ topic shop copying it"


@pytest.mark.parametrize("code", [0, Code.OFFSET_OUT_OF_RANGE, Code.NOT_LEADER_OR_FOLLOWER])
def test_logs_that_part_are_looked_at_where_they_do(code: int) -> None:
    assert decided(code, diverging_epoch=2, diverging_end=7) == CheckSource(SourceOffset(7))


def test_an_unknown_offset_is_looked_for_and_is_no_trouble_yet() -> None:
    assert decided(Code.OFFSET_OUT_OF_RANGE) == CheckSource(SourceOffset(-1))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Code.UNKNOWN_TOPIC_ID, "source: UnknownTopicIdError"),
        (Code.INCONSISTENT_TOPIC_ID, "source: InconsistentTopicIdError"),
        (Code.UNKNOWN_TOPIC_OR_PARTITION, "source: UnknownTopicOrPartitionError"),
    ],
)
def test_another_topic_is_looked_at_as_a_whole(code: int, reason: str) -> None:
    assert decided(code) == CheckSource(None, reason)


@pytest.mark.parametrize("code", [Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_LEADER_EPOCH, -1])
def test_any_other_error_passes(code: int) -> None:
    assert isinstance(decided(code), PauseFetch)
