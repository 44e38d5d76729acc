"""Laws of the exact map: a group that goes on at a translated offset reads what it would have read next, once."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from tests.property.map_flow import PART, Flow, Truth, holes
from tests.segment_keys import decode_segment_key
from twinlog.mirror.offsets.exact_map import CopiedRun, ExactMap, Translated
from twinlog.mirror.offsets.segments import Segment, segment_at
from twinlog.model.types import TopicName, TopicPartition

appends = st.tuples(st.just("append"), holes, st.sampled_from([0, 0, 0, 1, 5]))

passes = st.tuples(st.just("pass"), st.integers(1, 4), st.just(0))

rewinds = st.tuples(st.just("back"), st.integers(0, 12), st.integers(0, 12))

begins = st.tuples(st.integers(0, 5), st.integers(0, 5))


@given(begins, st.booleans(), st.lists(st.one_of(appends, appends, passes), max_size=12))
def test_every_offset_translates_to_the_next_copy(
    begin: tuple[int, int], complete: bool, events: list[tuple[str, Any, int]]
) -> None:
    truth, known = Truth(*begin), ExactMap(*begin, complete=complete)
    for kind, what, foreign in events:
        if kind == "append":
            spans, base = truth.append(what, foreign)
            for first, count in spans:
                known.add_runs([CopiedRun(first, base, count)])
                base += count
        else:
            truth.source_end += what
            known.skip_to(truth.source_end)
    for offset in range(truth.source_end + 1):
        there = truth.next_copy(offset)
        expected = Translated(known.next_target if there is None else there, True)
        assert known.to_target(offset) == (expected if complete or offset >= begin[0] else None)
    for offset in range(begin[1], known.next_target + 1):
        back = known.to_source(offset)
        assert back is not None
        assert back.exact
        ahead = [here for here, there in truth.copies if there >= offset]
        assert [here for here, _ in truth.copies if here >= back.offset] == ahead
        if (back.offset, offset) not in truth.copies:
            # Between two copies; in the source hole there, if there is one too.
            assert not any(there == offset for _, there in truth.copies)
    assert known.to_target(truth.source_end + 1) == Translated(known.next_target, False)


steps = st.one_of(
    appends,
    appends,
    passes,
    rewinds,
    st.tuples(st.just("lost"), holes, st.sampled_from([0, 2])),
    st.tuples(st.just("fail"), st.integers(0, 8), st.just(0)),
    st.tuples(st.just("late"), st.just(0), st.just(0)),
    st.tuples(st.just("store"), st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.sampled_from(["clean", "crash", "half", "other"]), st.just(0)),
    st.tuples(st.just("join"), st.integers(0, 60), st.just(0)),
    st.tuples(st.just("late join"), st.integers(0, 60), st.sampled_from(["failed", "ended"])),
    st.tuples(st.just("join arrives"), st.integers(0, 2), st.just(0)),
)


@settings(max_examples=75, deadline=None)
@given(st.lists(steps, min_size=5, max_size=40))
# What a copier wrote last arrives after the first segment of the next copier.
@example(
    [
        ("append", [(0, 1)], 0),
        ("pass", 1, 0),
        ("append", [(0, 1)], 0),
        ("fail", 0, 0),
        ("append", [(1, 1)], 0),
        ("fail", 3, 0),
        ("restart", "crash", 0),
        ("late", 0, 0),
    ]
)
def test_no_record_is_skipped_whatever_happens(events: list[tuple[str, Any, int]]) -> None:
    play(events)


copied = st.tuples(
    st.just("copy"),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=4, max_size=12),
    st.sampled_from([0, 1]),
)

joins = st.one_of(
    st.tuples(st.just("late join"), st.integers(0, 30), st.sampled_from(["failed", "ended"])),
    st.tuples(st.just("late join"), st.integers(0, 30), st.sampled_from(["failed", "ended"])),
    st.tuples(st.just("join"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("restart"), st.just("crash"), st.just(0)),
    st.tuples(st.just("back"), st.integers(0, 12), st.integers(0, 12)),
)

arrivals = st.tuples(st.just("join arrives"), st.integers(0, 2), st.just(0))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(copied, copied, joins), min_size=2, max_size=5), joins, st.tuples(arrivals, arrivals, copied))
# An old driver's join arrives after the next one's and deletes what was joined there.
@example(
    [
        (("copy", [(2, 1)] * 11, 0), ("copy", [(1, 2)] * 2, 0), ("late join", 11, "failed")),
        (("copy", [(1, 1)] * 9, 1), ("copy", [(2, 2)] * 8, 0), ("late join", 15, "failed")),
    ],
    ("join", 17, 0),
    (("join arrives", 1, 0), ("join arrives", 2, 0), ("copy", [(1, 1)], 0)),
)
def test_no_record_is_skipped_where_joined_segments_arrive_late(
    rounds: list[tuple[Any, ...]], last: tuple[str, Any, int], arrive: tuple[Any, ...]
) -> None:
    play([event for events in rounds for event in events] + [last, *arrive])


@settings(max_examples=50, deadline=None)
@given(st.floats(0.1, 300_000.0), st.lists(st.one_of(copied, joins), max_size=4), st.integers(0, 3))
def test_no_record_is_skipped_where_the_first_segment_arrives_after_that_of_the_next_copier(
    gone_s: float, events: list[tuple[str, Any, int]], at: int
) -> None:
    """Nothing else was stored by the first one: before that it appends nothing."""
    lost = Flow().topic
    flow = Flow(begun_s=gone_s)
    for event in events[:at]:
        play([event], flow)
    flow.all_known = False
    flow.topic += lost
    flow.follow()
    play(events[at:], flow)


def play(events: list[tuple[str, Any, int]], flow: Flow | None = None) -> None:
    flow = flow or Flow()
    for kind, what, other in events:
        if kind == "append":
            flow.append(what, other)
        elif kind == "copy":
            for run in what:
                flow.append([run], other)
                flow.store()
        elif kind == "lost":
            flow.lost_track(what, other)
        elif kind == "fail":
            flow.fail(what)
        elif kind == "late":
            flow.arrive_late()
        elif kind == "pass":
            flow.passed(what)
        elif kind == "back":
            flow.went_back(what, other)
        elif kind == "restart":
            flow.restart(what)
        elif kind == "join":
            flow.join(what)
        elif kind == "late join":
            flow.join(what, late=other)
        elif kind == "join arrives":
            flow.join_arrives(what)
        else:
            flow.store()
            check(flow)
    flow.store()
    check(flow)


def check(flow: Flow) -> None:
    # What the source does not hold any more is not asked for.
    copies = [(here, there) for here, there in flow.truth.copies if here >= flow.source_start]
    for maps in (flow.followed, flow.loaded()):
        known = maps.map(PART)
        assert known is not None
        targets = [there for _, there in flow.truth.copies]
        for offset in range(flow.source_start, flow.truth.source_end + 2):
            found = known.to_target(offset)
            if found is None:
                assert offset < known.points(0, 1)[0].source
                assert not known.complete
                continue
            ahead = [there for here, there in flow.truth.copies if here >= offset]
            read = [there for there in targets if there >= found.offset]
            if found.exact and not flow.strays:
                assert read == ahead
            assert found.exact or not flow.all_known or offset > flow.truth.source_end
            assert set(ahead) <= set(read)
        for offset in range(flow.truth.target_end + 1):
            back = known.to_source(offset)
            if back is not None:
                assert all(here >= back.offset for here, there in copies if there >= offset)
        for here, there in copies:
            found, back = known.to_target(here), known.to_source(there)
            if found is not None and found.exact and back is not None and back.exact and not flow.strays:
                assert (found.offset, back.offset) == (there, here)


points = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30)


@given(points, st.integers(0, 2**31 - 1), st.booleans(), st.text(max_size=9))
def test_a_stored_segment_decodes_to_its_points(
    gaps: list[tuple[int, int, int]], generation: int, complete: bool, topic: str
) -> None:
    known = ExactMap(gaps[0][0], gaps[0][1])
    for source, target, count in gaps:
        known.add_runs([CopiedRun(known.next_source + source, known.next_target + target, count + 1)])
    segment = Segment(TopicPartition(TopicName(topic), 7), generation, complete, tuple(known.points()))
    where = decode_segment_key(segment.key)
    assert where is not None
    assert segment_at(where, segment.value) == segment
