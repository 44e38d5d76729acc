"""After a crash: the source has deleted what is after the stored position, of which copies arrived on the target.

Equal records are distinguished by their number: one that never arrived would count as copied otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.copier.changing import by
from tests.unit.copier.copied import REMOTE, SOURCE, TOPIC, World, part, world
from twinlog.copier.copier import Copier
from twinlog.copier.start.stored_maps import StoredMaps
from twinlog.mirror.offsets.exact_map import Translated
from twinlog.mirror.offsets.positions import Position
from twinlog.mirror.offsets.segments import segments_topic
from twinlog.model.amounts import counted
from twinlog.model.types import TargetOffset

STORED, COPIED, WRITTEN = 3, 9, 13
MARK = None
"""In the place of a value: the marker of a transaction, which takes an offset and is not copied."""


def crashed(here: World, log: Sequence[bytes | None], stored: int, copied: int) -> Position:
    """Copies `copied` records of a source log, and loses the copier, which stored its position after `stored` records;
    then the rest is written. The position."""
    first = here.begin()

    def write(begin: int, end: int) -> None:
        for value in log[begin:end]:
            if value is MARK:
                here.source.log(TOPIC).mark(7, 0, commit=True)
                here.source.news()
            else:
                here.write(value)

    places = [number for number, value in enumerate(log) if value is not MARK] + [len(log)]
    write(0, places[stored])
    here.until(lambda: len(here.copied()) == stored)
    write(places[stored], places[copied])
    here.until(lambda: len(here.copied()) == copied)
    writer = first.partitions[part()].acknowledged.writer
    assert writer is not None
    here.crash(first)
    write(places[copied], len(log))
    return Position(places[stored], stored, 0, writer=replace(writer, sequence=stored))


def resumed(here: World, position: Position) -> tuple[Copier, Position]:
    """A copier that has begun at a position and copied all, and where it began."""
    copier = here.begin(here.grant(0, position))
    begun = copier.partitions[part()].acknowledged
    here.write(b"last")
    here.until(lambda: here.copied()[-1:] == [b"last"])
    return copier, begun


def gaps(here: World) -> list[str]:
    return [text for kind, text in here.events if kind == "gap"]


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("start", [STORED + 1, 7, COPIED - 1, COPIED, COPIED + 1, WRITTEN])
def test_what_was_not_copied_is(start: int, equal: bool) -> None:
    values = [b"same" if equal else b"%d" % number for number in range(WRITTEN)]
    with world(gap_policy="continue") as here:
        stored = crashed(here, values, STORED, COPIED)
        here.source.log(TOPIC).delete_before(start)
        _, begun = resumed(here, stored)
        assert begun.next_source == COPIED
        assert here.copied() == [*values[:COPIED], *values[max(start, COPIED) :], b"last"]
        # All that was deleted before that had been copied.
        named = f"{COPIED} to {start - 1} ({counted(start - COPIED, 'offset')})"
        assert [named in text for text in gaps(here)] == [True] * (start > COPIED)
        assert {kind for kind, _ in here.events} <= {"gap"}
        assert not here.failures


def test_deleted_records_of_another_program_are_no_copies() -> None:
    """Between two leases no copier appends: the records that the target has deleted since then are foreign."""
    with world() as here:
        copier = here.begin()
        here.feed([b"0", b"1", b"2"])
        here.until(lambda: len(here.copied()) == 3)
        here.run(copier.release_partitions, [part()])
        here.crash(copier)
        here.target.write(REMOTE, b"foreign", b"too")
        here.target.log(REMOTE).delete_before(5)
        here.feed([b"3", b"4", b"5"])
        here.begin(here.grant(position=here.stored(), drained=True))
        here.until(lambda: here.copied()[-1:] == [b"5"])
        assert here.copied() == [b"3", b"4", b"5"]


def test_records_of_somebody_else_are_no_copies_of_what_was_deleted() -> None:
    with world() as here:
        stored = crashed(here, [b"same"] * WRITTEN, STORED, COPIED)
        here.target.log(REMOTE).write(b"same", b"same")
        here.source.log(TOPIC).delete_before(COPIED)
        _, begun = resumed(here, stored)
        assert (begun.next_source, begun.next_target) == (COPIED, COPIED + 2)
        ((kind, text),) = here.events
        assert kind == "foreign"
        assert f"of {COPIED - STORED + 2} records after the stored position 2 are not copies" in text


def test_heartbeats_that_another_program_copies_too_are_no_news() -> None:
    """As beside MirrorMaker 2, of which a flow takes over a wave of topics."""
    with world() as here:
        stored = crashed(here, [b"same"] * WRITTEN, STORED, COPIED)
        here.target.log(REMOTE).write(b"same", b"same")
        here.source.log(TOPIC).delete_before(COPIED)
        copier = here.begin(replace(here.grant(0, stored), heartbeats=True))
        begun = copier.partitions[part()].acknowledged
        assert (begun.next_source, begun.next_target) == (COPIED, COPIED + 2)
        assert not here.events


@pytest.mark.parametrize("start", [STORED + 1, 7, COPIED - 1, COPIED, COPIED + 1, WRITTEN])
@pytest.mark.parametrize("different", [True, False])
def test_nothing_that_a_transform_makes_is_missing(start: int, different: bool) -> None:
    """How many rows it made of deleted records is unknown: of equal ones what is left is copied again."""
    values = [b"%d" % number if different else b"same" for number in range(WRITTEN)]
    with world(gap_policy="continue", transform=by("identity")) as here:
        stored = crashed(here, values, STORED, COPIED)
        here.source.log(TOPIC).delete_before(start)
        resumed(here, stored)
        known = different and start < COPIED
        assert here.copied() == [*values[:COPIED], *values[COPIED if known else start :], b"last"]
        assert bool(gaps(here)) is not known
        assert not here.failures


def test_a_row_of_a_deleted_record_is_not_taken_for_the_first_of_what_is_left() -> None:
    """One arrived, and those after it that never did are equal to it."""
    values = [b"%d" % number for number in range(STORED)] + [b"same"] * 3 + [b"other"]
    with world(gap_policy="continue", transform=by("identity")) as here:
        stored = crashed(here, values, STORED, STORED + 1)
        here.source.log(TOPIC).delete_before(STORED + 1)
        resumed(here, stored)
        assert here.copied()[STORED + 1 :] == [*values[STORED + 1 :], b"last"]


@pytest.mark.parametrize("start", [STORED + 1, 7, COPIED - 1])
def test_no_record_is_noted_in_the_place_of_an_equal_one(start: int) -> None:
    """A group that comes back from the target would have skipped those between."""
    with world() as here:
        position = crashed(here, [b"same"] * WRITTEN, STORED, COPIED)
        here.source.log(TOPIC).delete_before(start)
        copier, _ = resumed(here, position)
        here.until(lambda: (found := here.stored()) is not None and found.next_source == WRITTEN + 1)
        stored = here.stored()
        assert stored is not None
        known = here.run(StoredMaps(copier.target, segments_topic(SOURCE)).read, {part(): stored})[part()]
        places = range(STORED, WRITTEN)
        back = [found for place in places if (found := known.to_source(TargetOffset(place))) is not None]
        assert len(back) == len(places)
        assert all(found.offset <= place for place, found in zip(places, back, strict=True))
        assert back[start - STORED :] == [Translated(offset, True) for offset in range(start, WRITTEN)]


@pytest.mark.parametrize("deleted", [0, 6, COPIED])
def test_all_that_was_copied_may_be_deleted(deleted: int) -> None:
    """Behind it the epoch of the position may be an old one, for which the source would report a truncation."""
    with world() as here:
        position = crashed(here, [b"same"] * COPIED, STORED, COPIED)
        here.source.log(TOPIC).delete_before(COPIED)
        here.target.log(REMOTE).delete_before(deleted)
        _, begun = resumed(here, position)
        assert (begun.next_source, begun.leader_epoch) == (COPIED, -1)
        assert here.target.log(REMOTE).end == COPIED + 1
        assert not here.failures
        assert not gaps(here)


@pytest.mark.drawn
@pytest.mark.parametrize("letters", ["a", "ab", ""])
@pytest.mark.parametrize("holes", [False, True])
def test_wherever_both_logs_begin_nothing_is_lost(letters: str, holes: bool, chance: random.Random) -> None:
    """Nor is anything there twice, where each offset of the source is a record; of different records, no more than
    there are other offsets."""
    for _ in range(4):
        log = [
            MARK if holes and chance.random() < 0.3 else (chance.choice(letters) if letters else str(number)).encode()
            for number in range(24)
        ]
        log.append(b"end")
        places = [number for number, value in enumerate(log) if value is not MARK]
        stored, copied = sorted(chance.sample(range(1, len(places) - 1), 2))
        start = chance.randrange(places[stored] + 1, len(log))
        with world(chance.randrange(2**31), gap_policy="continue") as here:
            position = crashed(here, log, stored, copied)
            here.source.log(TOPIC).delete_before(start)
            if not holes:
                here.target.log(REMOTE).delete_before(chance.choice([0, chance.randrange(copied + 1)]))
            resumed(here, position)
            rest = [*(log[place] for place in places[copied:] if place >= start), b"last"]
            assert here.copied()[-len(rest) :] == rest
            for one in here.target.log(REMOTE).records():
                assert one.offset >= copied or one.value == log[places[one.offset]]
            again = here.target.log(REMOTE).end - copied - len(rest)
            left = next(place for place in places if place >= start)
            between = sum(value is MARK for value in log[places[stored] : left])
            assert 0 <= again <= (copied - stored if holes and letters else between)
            assert not here.failures
