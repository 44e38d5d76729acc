"""A copier begins with a partition where its driver says, and by time where that says no offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.virtual.requests import LIST_OFFSETS
from tests.copier_reports import copy_partitions
from tests.unit.copier.copied import TOPIC, World, part, world
from twinlog.mirror.offsets.starts import AT_FIRST, REFUSED, StartSpec
from twinlog.model.types import SourceOffset

OLD, NEW = [b"%d" % number for number in range(6)], [b"late"]


def filled(here: World, number: int = 0) -> None:
    """Six records, a second apart."""
    for second, value in enumerate(OLD):
        here.source.log(TOPIC, number).write(value, at_ms=1000 * second)
    here.source.news()


def copies(here: World, begin: StartSpec, *, id_: str | None = None) -> Sequence[bytes | None]:
    """What a copier copies that begins so, with a record of an old timestamp that comes once it has begun."""
    here.begin(replace(here.grant(), begin=begin, topic_id=id_))
    here.until(lambda: here.stored() is not None)
    here.write(*NEW)
    here.until(lambda: here.copied()[-1:] == NEW)
    return here.copied()


@pytest.mark.parametrize(
    ("begin", "first"),
    [
        (AT_FIRST, 0),
        (StartSpec(offset=SourceOffset(4)), 4),
        (StartSpec(offset=SourceOffset(6)), 6),
        (StartSpec(since_ms=0), 0),
        (StartSpec(since_ms=2001), 3),
        (StartSpec(since_ms=5000), 5),
        (StartSpec(since_ms=5001), 6),
    ],
)
def test_where_a_partition_begins(begin: StartSpec, first: int) -> None:
    with world() as here:
        filled(here)
        assert copies(here, begin) == [*OLD[first:], *NEW]
        assert not here.failures


def test_a_topic_that_was_recreated_since_begins_at_its_first_record() -> None:
    with world() as here:
        filled(here)
        known = str(here.source.topics.ids[TOPIC])
        assert copies(here, StartSpec(offset=SourceOffset(4)), id_=known) == [*OLD[4:], *NEW]
    with world() as here:
        filled(here)
        assert copies(here, StartSpec(offset=SourceOffset(4)), id_="00000000-0000-0000-0000-000000000001") == [
            *OLD,
            *NEW,
        ]


def test_a_partition_that_must_not_begin_is_named_and_keeps_no_other_waiting() -> None:
    with world(partitions=2) as here:
        filled(here, 1)
        here.begin(replace(here.grant(0), begin=REFUSED), here.grant(1))
        here.until(lambda: here.copied(1) == OLD)
        (held,) = here.held
        assert (held.source, held.message_id) == (part(0), "TW-START-01")
        assert "auto.offset.reset = none, and no position is stored for this partition" in held.text
        assert not here.failures
        assert here.stored(0) is None


def test_a_partition_without_a_leader_begins_by_time_once_it_has_one() -> None:
    with world(partitions=2) as here:
        filled(here)
        here.source.move(TOPIC, 0, None)
        copier = here.open()
        grants = [replace(here.grant(number), begin=StartSpec(since_ms=3500)) for number in (0, 1)]
        here.loop.start(copier.begin_partitions, copier.add_grants(grants))
        here.until(lambda: here.stored(1) is not None)
        assert here.stored(0) is None
        here.source.move(TOPIC, 0, 1)
        here.until(lambda: here.copied() == OLD[4:])


def test_what_begins_by_time_costs_two_requests_for_all() -> None:
    with world(partitions=8) as here:
        copier = here.open()
        here.run(copy_partitions, copier, [])
        here.source.asked.clear()
        here.run(
            copy_partitions, copier, [replace(here.grant(number), begin=StartSpec(since_ms=7)) for number in range(8)]
        )
        here.until(lambda: all(here.stored(number) is not None for number in range(8)))
        assert here.source.asked[LIST_OFFSETS] == 2
