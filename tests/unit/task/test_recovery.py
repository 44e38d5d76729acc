"""A partition whose source lacks what it asks for is looked at once, and copies nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from twinlog.kafka.loop import Loop, Signal
from twinlog.offsets.positions import Position
from twinlog.settings import ClientSettings, ProducerSettings
from twinlog.task.grant import Grant
from twinlog.task.hooks import Hooks
from twinlog.task.partition import PartitionCopy
from twinlog.task.recovery import Recovery
from twinlog.types import SourceOffset, TopicName, TopicPartition
from twinlog.write.appends import Append, CopyRules
from twinlog.write.encode import encode_batch
from twinlog.write.keyed import record_body
from twinlog.write.queue import ProducerIdentity

SOURCE, REMOTE = TopicPartition(TopicName("shop"), 0), TopicPartition(TopicName("north.shop"), 0)


class Inspector:
    """Finds a gap up to offset 10; notes at which positions it was asked, and whether the partition rested then."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.part: PartitionCopy
        self.asked: list[Position] = []
        self.rested: list[bool] = []

    async def look(self, position: Position, *_: Any) -> Position:
        self.asked.append(position)
        await self._loop.sleep(0.02)
        self.rested.append(self.part.paused and self.part.at_rest)
        return replace(position, next_source=SourceOffset(10))


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def checked_part() -> PartitionCopy:
    """A partition that does not read any more, with one batch on its way."""
    hooks: dict[str, Any] = {own.name: lambda *_: None for own in fields(Hooks)}
    part = PartitionCopy(
        Grant(SOURCE, REMOTE, None, 1 << 20, None),
        Position(0, 0),
        CopyRules(max_batch_bytes=1 << 20),
        ProducerIdentity(1, 0),
        max_fetch_bytes=1 << 20,
        producer=ProducerSettings(ClientSettings(())),
        hooks=Hooks(**hooks),
    )
    data = encode_batch([(0, record_body(b"k", b"v", ()))])
    part.queue.put([Append(data, 1, SourceOffset(0), SourceOffset(1), 0, ((SourceOffset(0), 1),))])
    part.paused = True
    return part


def recovery(loop: Loop, inspector: Inspector, moved: Signal) -> Recovery:
    unused: Any = None
    looking: Any = inspector
    return Recovery(
        loop, unused, looking, unused, refresh_source=lambda: None, moved=moved, stopped=lambda: inspector.part.left
    )


@pytest.mark.timeout(20)
def test_a_partition_is_checked_once_and_rests_meanwhile(loop: Loop) -> None:
    part, inspector, moved = checked_part(), Inspector(loop), loop.signal()
    inspector.part = part
    checks = recovery(loop, inspector, moved)

    async def play() -> None:
        first = loop.spawn(checks.check, part, -1)
        await loop.sleep(0.01)
        assert inspector.asked == []
        # The target lost track of the producer: it begins anew where it was, and the source refuses that again.
        part.queue.clear(ProducerIdentity(1, 1))
        part.restart(part.acknowledged)
        second = loop.spawn(checks.check, part, -1)
        await loop.gather([first, second])
        assert not part.paused
        assert part.acknowledged.next_source == 10
        # Another gap is another matter.
        await checks.check(part, -1)

    loop.run(play)
    assert [position.next_source for position in inspector.asked] == [0, 10]
    assert inspector.rested[0]
