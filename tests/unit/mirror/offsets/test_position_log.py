from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import BEGIN, VirtualClock
from twinlog.clock import LONG_AGO
from twinlog.errors import RefusedError, TwinlogError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.producer.append_queue import AppendQueue
from twinlog.kafka.producer.appender import NO_ANSWER
from twinlog.kafka.producer.appends import Append
from twinlog.kafka.producer.produce_errors import CORRUPT_RETRIES
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import ProducerIdentity
from twinlog.mirror.offsets.position_writer import PositionLog
from twinlog.model.types import SourceOffset, TopicName, TopicPartition
from twinlog.settings.flow import FlowSettings

WHERE = TopicPartition(TopicName("mm2-offsets.east.internal"), 3)


class Log:
    """A position log whose target answers as the test asks."""

    def __init__(self) -> None:
        self.offered: list[AppendQueue] = []
        self.heard: list[TwinlogError | None] = []
        self.looked_for_leaders = 0
        client: Any = SimpleNamespace(request_timeout_ms=1000, retry_backoff_ms=100, retry_backoff_max_ms=1000)
        settings: Any = SimpleNamespace(positions_topic=WHERE.topic, producer=SimpleNamespace(client=client))
        self.log = PositionLog(
            cast(ClusterClient, SimpleNamespace(alias="west", loop=SimpleNamespace(clock=VirtualClock()))),
            cast(FlowSettings, settings),
            self.offered.append,
            self._leaderless,
            self.heard.append,
        )
        self.log.clear(ProducerIdentity(1, 0, transactional=True))
        data = encode_batch([(0, record_body(b"k", b"v", ()))])
        self.log.send({WHERE: [Append(data, 1, SourceOffset(0), SourceOffset(0), 0, ())]})

    def _leaderless(self) -> None:
        self.looked_for_leaders += 1

    def answer(self, code: int) -> None:
        queue = self.offered.pop()
        queue.not_before = LONG_AGO
        assert queue.next_bytes(BEGIN)
        queue.record_response(queue.take_append(), code, 7)


@pytest.mark.parametrize("code", [NO_ANSWER, Code.NOT_LEADER_OR_FOLLOWER])
def test_a_leader_that_moved_is_looked_for(code: int) -> None:
    log = Log()
    log.answer(code)
    assert log.looked_for_leaders == 1
    assert log.heard == []
    log.answer(Code.NONE)
    assert log.log.all_acknowledged
    assert log.heard == [None]


def test_positions_that_were_damaged_on_their_way_are_sent_again_a_few_times() -> None:
    log = Log()
    for _ in range(CORRUPT_RETRIES):
        log.answer(Code.CORRUPT_MESSAGE)
    assert log.heard == []
    log.answer(Code.CORRUPT_MESSAGE)
    (error,) = log.heard
    assert isinstance(error, RefusedError)


def test_a_lost_epoch_ends_the_transaction() -> None:
    log = Log()
    log.answer(Code.INVALID_PRODUCER_EPOCH)
    (error,) = log.heard
    assert error is not None
    assert error.retriable
    assert not log.offered
