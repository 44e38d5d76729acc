"""A range of a log goes into another one, exactly once, whatever ends it in the middle; in virtual time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from harness.virtual.faults import Fault
from harness.virtual.requests import FETCH, INIT_PRODUCER_ID, PRODUCE
from tests.unit.ops.replay.replaying import NOW, Clusters, copied, expected, options_of, planner_of, put, replay
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp


@pytest.mark.parametrize(("per_batch", "codec"), [(1, "none"), (40, "none"), (40, "zstd")])
@pytest.mark.parametrize(("start", "end"), [(0, 400), (37, 222), (41, 43), (80, 120)])
def test_exactly_the_range(clusters: Clusters, per_batch: int, codec: str, start: int, end: int) -> None:
    put(clusters[0], "t", 400, per_batch, codec=codec)
    row = replay(clusters, start, end)
    assert (row.problem, row.found, row.appended) == (None, 0, end - start)
    assert copied(clusters) == expected(clusters, start, end)
    again = replay(clusters, start, end)
    assert (again.problem, again.found, again.appended) == (None, end - start, 0)
    # A longer range goes on after it.
    more = replay(clusters, start, min(end + 30, 400))
    assert (more.problem, more.appended) == (None, min(end + 30, 400) - end)
    assert copied(clusters) == expected(clusters, start, min(end + 30, 400))


def test_holes_and_aborted_records_are_no_part_of_it(clusters: Clusters) -> None:
    put(clusters[0], "t", 100, 1)
    log = clusters[0].log("t")
    log.batches = [one for one in log.batches if one[0].base_offset % 7]
    batch = encode_batch([(NOW, record_body(b"k", b"aborted"))], 0)
    stamp(batch, 5, 0, 0, transactional=True)
    log.append(bytes(batch))
    log.mark(5, 0, commit=False)
    put(clusters[0], "t", 20, 3, first=200)
    row = replay(clusters, 10, 115, isolation_level="read_committed")
    assert row.problem is None
    assert copied(clusters) == expected(clusters, 10, 115, committed=True)
    assert (b"aborted" in str(copied(clusters)).encode()) is False


def test_goes_on_after_what_arrived_wherever_it_was_ended(clusters: Clusters, chance: random.Random) -> None:
    put(clusters[0], "t", 300, 12)
    assert replay(clusters, 20, 290).problem is None
    log = clusters[1].log("s.t.replay")
    whole, batches, decoded = copied(clusters), list(log.batches), dict(log._decoded)
    for kept in sorted(chance.sample(range(len(batches)), 4)):
        log.batches, log._decoded = batches[:kept], dict(decoded)
        log._producers.clear()
        row = replay(clusters, 20, 290)
        assert (row.problem, row.found) == (None, sum(one.record_count for one, _ in batches[:kept]))
        assert copied(clusters) == whole


def test_trouble_of_brokers_doubles_nothing(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 400, 12)
    source.fault(FETCH, Fault(lost=True), times=2)
    target.fault(INIT_PRODUCER_ID, Fault(code=Code.COORDINATOR_LOAD_IN_PROGRESS), times=3)
    target.fault(PRODUCE, Fault(lost=True, done=True))
    target.fault(PRODUCE, Fault(lost=True), times=3, topic="s.t.replay")
    target.codes(PRODUCE, "s.t.replay", 0, Code.NOT_LEADER_OR_FOLLOWER, 0, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    row = replay(clusters, 0, 400)
    assert (row.problem, row.appended) == (None, 400)
    assert copied(clusters) == expected(clusters, 0, 400)
    assert (source.faults_left, target.faults_left) == (0, 0)


def test_a_topic_of_somebody_else_is_left_alone(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 100, 10)
    put(target, "s.t.replay", 5, 5, first=50)
    row = replay(clusters, 0, 100)
    assert row.appended == 0
    assert "has at offset 0 another record than t-0 at offset 0" in (row.problem or "")
    assert len(copied(clusters)) == 5


def test_the_record_that_differs_is_named_with_both_of_its_offsets(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 100, 10)
    assert replay(clusters, 20, 50).problem is None
    put(target, "s.t.replay", 3, 3, first=50)
    target.write("s.t.replay", b"foreign")
    row = replay(clusters, 20, 100)
    assert "has at offset 33 another record than t-0 at offset 53" in (row.problem or "")


def test_who_writes_there_meanwhile_is_noticed(clusters: Clusters) -> None:
    source, target = clusters
    put(source, "t", 400, 12)
    left = [3]

    def intrude(key: int, _: Any) -> None:
        if key == PRODUCE:
            left[0] -= 1
            if not left[0]:
                put(target, "s.t.replay", 1, 1, first=999)

    target.carried_out = intrude
    row = replay(clusters, 0, 400)
    assert "got records of another producer" in (row.problem or "")
    assert row.appended < 400


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, "WRITE on topic s.t.replay"),
        (Code.MESSAGE_TOO_LARGE, "s.t.replay-0 refuses a batch of "),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "s.t.replay-0 has lost track of its appends"),
        (Code.INVALID_PRODUCER_EPOCH, "s.t.replay-0 has lost track of its appends"),
        (Code.INVALID_RECORD, "s.t.replay-0 refuses a batch: "),
    ],
)
def test_a_refusal_that_lasts_ends_the_replay_and_a_further_run_copies_the_rest(
    clusters: Clusters, code: int, words: str
) -> None:
    put(clusters[0], "t", 400, 12)
    clusters[1].codes(PRODUCE, "s.t.replay", 0, 0, code)
    row = replay(clusters, 0, 400)
    assert words in (row.problem or "")
    assert len(copied(clusters)) < 400
    assert replay(clusters, 0, 400).problem is None
    assert copied(clusters) == expected(clusters, 0, 400)


def test_what_the_target_has_already_counts_as_appended(clusters: Clusters) -> None:
    """A broker remembers the offsets of five batches, and answers a later retry with an error."""
    put(clusters[0], "t", 400, 12)
    clusters[1].fault(PRODUCE, Fault(lost=True, done=True), topic="s.t.replay")
    clusters[1].codes(PRODUCE, "s.t.replay", 0, Code.DUPLICATE_SEQUENCE_NUMBER)
    row = replay(clusters, 0, 400)
    assert (row.problem, row.appended) == (None, 400)
    assert copied(clusters) == expected(clusters, 0, 400)


def test_a_target_that_takes_nothing_is_given_up(clusters: Clusters) -> None:
    put(clusters[0], "t", 100, 12)
    began = clusters[0].now()
    clusters[1].fault(PRODUCE, Fault(lost=True), times=1_000)
    row = replay(clusters, 0, 100)
    assert "s.t.replay-0 has refused records for 20 s: no answer; the same command continues" in (row.problem or "")
    assert clusters[0].now() - began < 120


def test_what_retention_deletes_meanwhile_is_no_silent_hole(clusters: Clusters) -> None:
    put(clusters[0], "t", 100, 10)
    clusters[0].log("t").delete_before(30)
    row = replay(clusters, 10, 100)
    assert row.problem is not None
    assert "the source deleted offsets 10 to 29" in row.problem
    assert copied(clusters) == []


def test_what_the_source_has_deleted_since_an_earlier_replay_is_said(clusters: Clusters) -> None:
    """What was copied of it is no record of somebody else."""
    put(clusters[0], "t", 100, 10)
    assert replay(clusters, 10, 60).appended == 50
    clusters[0].log("t").delete_before(30)
    row = replay(clusters, 10, 100)
    assert "deleted offsets 10 to 29 (retention) before their comparison with the copies in s.t.replay-0" in str(
        row.problem
    )
    # A later run of the same command plans where the log begins by then.
    with planner_of(clusters, options_of()) as planner:
        (part,) = planner.plan().parts
    assert (part.start, part.begin_lost) == (30, True)
    row = replay(clusters, 30, 100, begin_lost=True)
    assert "t-0 begins at offset 30 by now (retention), and s.t.replay-0 with another record" in str(row.problem)
    assert len(copied(clusters)) == 50
    clusters[1].topics.delete("s.t.replay")
    clusters[1].create("s.t.replay")
    assert replay(clusters, 30, 100, begin_lost=True).appended == 70
