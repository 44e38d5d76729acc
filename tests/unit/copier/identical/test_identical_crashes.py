"""Copiers of identical offsets that die at any moment: each record is there once, despite late appends."""

from __future__ import annotations

import random

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import DELETE_RECORDS, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, world
from tests.unit.copier.identical.identical_log import (
    VALUES,
    begun_at_31,
    logs,
    lose_caught_up,
    require_once_where_late,
    same,
    trim,
)
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position
from twinlog.model.types import TargetOffset

FAULTS = (
    Fault(lost=True),
    Fault(lost=True, done=True),
    Fault(code=Code.NOT_LEADER_OR_FOLLOWER),
    Fault(code=Code.REQUEST_TIMED_OUT),
    Fault(delay_s=1.0),
)


REPEATED_EPOCH = 1543055029
"""A copier takes an epoch of its producer that an earlier copier has used for fillers."""


def test_crashes_and_faults_at_any_moment(chance: random.Random) -> None:
    crash_again_and_again(REPEATED_EPOCH)
    for _ in range(30):
        crash_again_and_again(chance.randrange(1 << 31))


def crash_again_and_again(seed: int) -> None:
    chance = random.Random(seed)
    with world(
        seed, offsets="identical", brokers=2, producer={"merge_batch_bytes": chance.choice([300, 524_288])}
    ) as here:
        for number in range(chance.randrange(1, 60)):
            here.write(*(b"%d.%d" % (number, at) for at in range(chance.choice([1, 1, 3, 20]))))
        if chance.random() < 0.7:
            trim(here, chance.randrange(here.source.log(TOPIC).end + 1))
        position: Position | None = None
        for _ in range(chance.randrange(1, 6)):
            for _ in range(chance.randrange(3)):
                key, topic = chance.choice([(PRODUCE, REMOTE), (DELETE_RECORDS, None)])
                here.target.fault(key, chance.choice(FAULTS), topic=topic)
            copier = here.begin(here.grant(position=position))
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            here.write(*(b"later %d" % at for at in range(chance.choice([1, 3]))))
            here.pass_by(chance.choice([0.0, 0.005, 0.02, 0.3, 2.0]) * chance.random())
            here.crash(copier)
            position = here.stored() if chance.random() < 0.8 else position
            if chance.random() < 0.1:
                here.target.log(REMOTE).cut(
                    chance.randrange(here.target.log(REMOTE).start, here.target.log(REMOTE).end + 1)
                )
        here.target.faults.clear()
        here.begin(here.grant(position=here.stored()))
        here.until(lambda: same(here) or bool(here.held), 300)
        assert here.held == [], (seed, here.held, logs(here)[0].end, logs(here)[1].end)
        assert here.failures == []
        assert here.target.log(REMOTE).end == TargetOffset(here.source.log(TOPIC).end)


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_late_append_of_a_dead_copier_is_there_once(merged: bool, count: int) -> None:
    """Its batch comes between the look of the next copier and that copier's first append."""
    with world(offsets="identical", producer={} if merged else {"merge_batch_bytes": 0}) as here:
        here.feed(VALUES[:20])
        lose_caught_up(here)
        stored = here.stored()
        assert stored is not None
        assert stored.writer is not None
        here.feed(VALUES[20:])
        late = encode_batch([(0, record_body(None, value, ())) for value in VALUES[20 : 20 + count]], 0)
        stamp(late, stored.writer.producer_id, stored.writer.epoch, stored.writer.sequence)
        require_once_where_late(here, bytes(late))


@pytest.mark.parametrize("count", [1, 5, 16, 31])
def test_late_fillers_of_a_dead_copier_are_there_once(count: int) -> None:
    with world(offsets="identical") as here:
        stored = begun_at_31(here)
        assert stored.writer is not None
        late = encode_batch([(0, record_body(b"twinlog.offset", b""))] * count)
        stamp(late, stored.writer.producer_id, stored.writer.epoch, stored.writer.sequence)
        require_once_where_late(here, bytes(late))
