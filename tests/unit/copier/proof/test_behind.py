"""A prover that is behind: it catches up by large answers, and takes nothing for a difference that time has changed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.log import VirtualLog
from harness.virtual.requests import FETCH, LIST_OFFSETS, PRODUCE
from tests.unit.copier.copied import REMOTE, TOPIC, World, part
from tests.unit.copier.identical.test_identical_transactions import SourceProducer
from tests.unit.copier.proof.test_faults import (
    FOUND_S,
    SINGLY,
    Found,
    all_proven,
    flipped,
    frozen,
    noted,
    proven,
    proving,
    put,
    thawed,
)
from twinlog.copier.copier import Copier
from twinlog.copier.proof.comparing import PATIENCE_S
from twinlog.copier.proof.partition_proof import Proven
from twinlog.copier.proof.prover import PAUSE_S
from twinlog.errors import RefusedError
from twinlog.kafka.fetch_session import FetchSession
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import record_bodies
from twinlog.kafka.record.stamp import stamp
from twinlog.mirror.offsets.positions import Position

SMALL_ANSWERS = {"max_partition_fetch_bytes": 2_000}
BEHIND_S = 2 * PATIENCE_S


def progress(copier: Copier) -> Proven:
    proof = copier.partitions[part()].copied.proof
    assert proof is not None
    return proof.proven


def begun(here: World) -> Copier:
    """A copier that has proven a first append."""
    copier = here.begin()
    here.feed([b"first"])
    here.until(lambda: all_proven(here, copier) and here.copied() == [b"first"])
    return copier


def copied_blindly(here: World, copier: Copier, batches: int) -> None:
    """Copy batches of three records while the prover stands still."""
    end = here.source.log(TOPIC).end
    here.feed([b"%d" % number for number in range(3 * batches)])
    here.until(lambda: copier.partitions[part()].acknowledged.next_source == end + 3 * batches)


def as_gzip(log: VirtualLog, place: int) -> None:
    """The same records in the form that a topic with `compression.type = gzip` has."""
    batch, data = log.batches[place]
    fresh = encode_batch([(at, body) for _, at, body in record_bodies(memoryview(data), batch)], CODECS["gzip"])
    stamp(fresh, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    put(log, place, fresh)


def test_a_prover_that_is_behind_catches_up_by_large_answers() -> None:
    with proving(producer=SINGLY, consumer=SMALL_ANSWERS) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 300)
        here.pass_by(BEHIND_S)
        asked = here.target.asked[FETCH]
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert here.target.asked[FETCH] - asked < 60
        assert progress(copier).records == 901
        assert found == {}


def test_appends_in_quick_succession_are_read_together() -> None:
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        assert copier.proofs._prover is not None
        # Loops beside each other take longer in virtual time.
        copier.proofs._prover._target.round_trip_s = 0.001
        here.pass_by(1)
        asked = here.target.asked[FETCH]
        for _ in range(500):
            here.feed([b"value"])
            here.pass_by(0.002)
        assert here.target.asked[FETCH] - asked < 30
        assert here.until(lambda: all_proven(here, copier)) < 0.3
        assert progress(copier).records == 501
        assert found == {}


def test_answers_as_large_as_the_settings_allow_have_no_pauses_between_them() -> None:
    with proving(producer=SINGLY, consumer=SMALL_ANSWERS) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        assert copier.proofs._prover is not None
        # Answers of a far broker would grow.
        copier.proofs._prover._target.round_trip_s = 0.001
        asked = here.target.asked[FETCH]
        copied_blindly(here, copier, 1_000)
        assert here.until(lambda: all_proven(here, copier), FOUND_S) < 10 * PAUSE_S
        assert here.target.asked[FETCH] - asked > 20
        assert progress(copier).records == 3_001


def test_records_that_the_copier_found_itself_are_left_out_from_far_behind() -> None:
    """The answers of some appends are lost, and the copier looks for their records."""
    with proving(producer=SINGLY, consumer=SMALL_ANSWERS) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 60)
        here.target.fault(PRODUCE, Fault(lost=True, done=True), topic=REMOTE)
        here.target.codes(PRODUCE, REMOTE, 0, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        copied_blindly(here, copier, 1)
        copied_blindly(here, copier, 60)
        here.pass_by(BEHIND_S)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        here.pass_by(FOUND_S)
        assert (progress(copier).records, progress(copier).unproved) == (361, 3)
        assert found == {}
        assert [text for kind, text in here.events if kind == "proof"] == []


def test_found_records_that_the_target_lost_are_no_difference() -> None:
    """They are out of the proof; the copier meets the loss with its next append."""
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        here.target.fault(PRODUCE, Fault(lost=True, done=True), topic=REMOTE)
        here.target.codes(PRODUCE, REMOTE, 0, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        copied_blindly(here, copier, 1)
        here.target.log(REMOTE).cut(1)
        thawed(here)
        here.pass_by(FOUND_S)
        copied_blindly(here, copier, 1)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert here.copied() == [b"first", *[b"0", b"1", b"2"] * 2]
        assert found == {}
        assert [text for kind, text in here.events if kind == "proof"] == []


@pytest.mark.parametrize("seed", range(4))
def test_markers_of_identical_offsets_are_no_difference_from_far_behind(seed: int) -> None:
    chance = random.Random(seed)
    how: Mapping[str, Any] = {"isolation_level": "read_committed", **SMALL_ANSWERS}
    with proving(seed, offsets="identical", consumer=how) as (here, found):
        here.target.hidden.clear()
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        producer = SourceProducer(here, 7)
        for number in range(40):
            producer.send(*(b"%d" % number for _ in range(chance.randrange(1, 4))))
            producer.end(commit=chance.random() < 0.5)
        here.until(lambda: copier.partitions[part()].acknowledged.next_source == here.source.log(TOPIC).end)
        here.pass_by(BEHIND_S)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        here.pass_by(FOUND_S)
        assert found == {}
        assert here.held == []
        assert [text for kind, text in here.events if kind == "proof"] == []


def test_a_target_that_rewrites_every_batch_is_compared_by_many_batches() -> None:
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 200)
        log = here.target.log(REMOTE)
        for place in range(1, len(log.batches)):
            as_gzip(log, place)
        asked = here.target.asked[FETCH] + here.source.asked[FETCH]
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert here.target.asked[FETCH] + here.source.asked[FETCH] - asked < 40
        assert progress(copier).records == 601
        assert found == {}


@pytest.mark.parametrize("how", ["deleted", "all deleted", "compacted"])
def test_records_that_the_source_has_no_more_cannot_be_compared(how: str) -> None:
    """Only the records themselves tell whether a batch in another form is the same."""
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 6)
        log, source = here.target.log(REMOTE), here.source.log(TOPIC)
        for place in range(1, 5):
            as_gzip(log, place)
        if how == "compacted":
            source.compact({source.batches[place][0].base_offset for place in (2, 3)})
        else:
            source.delete_before(source.end if how == "all deleted" else source.batches[3][0].base_offset)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        here.pass_by(FOUND_S)
        assert progress(copier).unproved >= 3
        assert found == {}


def test_a_changed_batch_is_found_without_its_source(chance: random.Random) -> None:
    """Its form is that of the append, so that no broker has written it."""
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 6)
        log, source = here.target.log(REMOTE), here.source.log(TOPIC)
        batch, data = log.batches[3]
        put(log, 3, flipped(data, chance))
        source.delete_before(source.end)
        thawed(here)
        here.until(lambda: all_proven(here, copier), FOUND_S)
        assert found == {part(): [Found("changed", batch.base_offset, batch.base_offset)]}


def test_a_changed_batch_in_another_form_is_found_in_a_whole_source(chance: random.Random) -> None:
    with proving(producer=SINGLY) as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        frozen(here, copier)
        copied_blindly(here, copier, 30)
        log = here.target.log(REMOTE)
        for place in range(1, len(log.batches)):
            as_gzip(log, place)
        place = chance.randrange(1, len(log.batches))
        batch, _ = log.batches[place]
        put(log, place, _with_another_record(log, place))
        thawed(here)
        here.until(lambda: bool(found), FOUND_S)
        (one,) = found[part()]
        assert (one.kind, one.source_offset, one.target_offset) == ("changed", batch.base_offset, batch.base_offset)
        here.until(lambda: all_proven(here, copier), FOUND_S)


def _with_another_record(log: VirtualLog, place: int) -> bytearray:
    batch, data = log.batches[place]
    records = [(at, body) for _, at, body in record_bodies(memoryview(data), batch)]
    at, body = records[0]
    records[0] = at, body[:-2] + bytes([body[-2] ^ 1]) + body[-1:]
    fresh = bytearray(encode_batch(records, CODECS["gzip"]))
    stamp(fresh, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return fresh


def test_a_log_that_became_shorter_is_asked_for_its_begin_now_and_then() -> None:
    """After an unclean election, until the copier meets the loss with its next append."""
    with proving() as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        copied_blindly(here, copier, 3)
        here.until(lambda: all_proven(here, copier))
        here.target.log(REMOTE).cut(1)
        here.target.news()
        here.pass_by(20)
        asked = here.target.asked[LIST_OFFSETS]
        here.pass_by(60)
        assert here.target.asked[LIST_OFFSETS] - asked < 10
        copied_blindly(here, copier, 1)
        here.until(lambda: all_proven(here, copier) and len(here.copied()) == 13, 2 * FOUND_S)
        assert found == {}


def test_a_broker_that_refused_the_login_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart of the broker with other passwords: the connections of the copier were open all the time."""
    refusing = [True]
    fetch = FetchSession.fetch

    async def refuse(session: FetchSession, *args: Any, **how: Any) -> Any:
        if refusing[0] and copier.proofs._prover is not None and session._client is copier.proofs._prover._target:
            raise RefusedError("cluster south: the login is refused")
        return await fetch(session, *args, **how)

    with proving() as (here, found):
        copier = begun(here)
        noted(here, copier, found)
        monkeypatch.setattr(FetchSession, "fetch", refuse)
        # The fetch under way ends first.
        here.pass_by(1)
        here.feed([b"second"])
        here.pass_by(5)
        before = proven(copier)
        refusing[0] = False
        here.until(lambda: all_proven(here, copier), 60)
        assert proven(copier) > before
        assert any("the login is refused" in text for kind, text in here.events if kind == "proof")
        assert found == {}
        assert here.failures == []


WAYS: Sequence[Mapping[str, Any]] = (
    {},
    {"exactly_once": "enabled", "transaction_interval_ms": 50},
    {"offsets": "identical", "consumer": {"isolation_level": "read_committed"}},
    {"producer": SINGLY, "consumer": SMALL_ANSWERS},
)


class Troubles:
    """What may happen to a proof without a difference, drawn."""

    def __init__(self, here: World, chance: random.Random, way: Mapping[str, Any], found: dict[Any, Any]) -> None:
        self._here = here
        self._chance = chance
        self._found = found
        self._identical = "offsets" in way
        # Offsets of a source with transactions are not those of its copies.
        self._plain = not self._identical and "exactly_once" not in way
        self.copier = self._begin(None)

    def _begin(self, position: Position | None) -> Copier:
        copier = self._here.begin(self._here.grant(0, position, drained=False))
        noted(self._here, copier, self._found)
        return copier

    def draw(self) -> None:
        here, chance = self._here, self._chance
        log, source = here.target.log(REMOTE), here.source.log(TOPIC)
        match chance.randrange(11):
            case 0:
                here.target.fault(PRODUCE, Fault(lost=True, done=chance.random() < 0.5), topic=REMOTE)
            case 1:
                first = [0] if chance.random() < 0.5 else []
                here.target.codes(PRODUCE, REMOTE, *first, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
            case 2:
                here.target.fault(FETCH, Fault(lost=True), topic=REMOTE)
            case 3:
                here.target.move(REMOTE, 0, chance.choice([1, 2]))
            case 4:
                thawed(here)
                here.crash(self.copier)
                self.copier = self._begin(here.stored())
            case 5:
                frozen(here, self.copier)
            case 6:
                thawed(here)
            case 7 if not self._identical:
                log.delete_before(chance.randrange(log.start, log.end + 1))
            case 8 if self._plain and log.batches:
                as_gzip(log, chance.randrange(len(log.batches)))
            case 9 if self._plain and part() in self.copier.partitions:
                source.delete_before(max(source.start, self.copier.partitions[part()].acknowledged.next_source))
            case _:
                here.target.fault(PRODUCE, Fault(delay_s=6 * chance.random()), topic=REMOTE)
        here.pass_by(chance.choice([0.01, 0.2, 1.0, 4.0]) * chance.random())


@pytest.mark.parametrize("seed", range(32))
def test_drawn_troubles_are_no_difference(seed: int) -> None:
    chance = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    with proving(seed, brokers=2, **way) as (here, found):
        here.target.hidden.clear()
        troubles = Troubles(here, chance, way, found)
        producer = SourceProducer(here, 7)
        for number in range(20):
            here.feed([b"%d" % number] * chance.randrange(1, 12))
            if "offsets" in way and chance.random() < 0.5:
                producer.send(b"in a transaction")
                if chance.random() < 0.7:
                    producer.end(commit=chance.random() < 0.5)
            troubles.draw()
        if producer.open:
            producer.end(commit=True)
        thawed(here)
        here.feed([b"last"])
        copy = troubles.copier.partitions[part()]
        here.until(lambda: copy.durable.next_source >= here.source.log(TOPIC).end, 120)
        proof = copy.copied.proof
        assert proof is not None
        here.until(lambda: not proof.behind, 120)
        here.pass_by(FOUND_S)
        assert found == {}
        assert here.held == []
        assert not any("crashed" in text or "internal" in text for _, text in here.events)
