"""Who is appointed to run a flow, by what its group's members report of themselves."""

from __future__ import annotations

from dataclasses import replace

from twinlog.worker.election.member import Leadership, LeaderTerm, Member, MemberInfo, appoint

FLOW = "east->west"
OLD, TERM = LeaderTerm(3, "id-b", 1.0), LeaderTerm(7, "id-a", 2.0)


def members(*names: str, **changes: object) -> dict[str, Member]:
    """Members `id-NAME` that are ready and know of `TERM`; `changes` are of the first one."""
    known = {f"id-{name}": Member(name, ready=True, term=TERM) for name in names}
    first = f"id-{names[0]}"
    known[first] = replace(known[first], **changes)  # type: ignore[arg-type]
    return known


def runner(known: dict[str, Member], **counts: int) -> str:
    return appoint(FLOW, 9, known, counts, now=0.0).term.runner


def test_who_runs_it_goes_on_whatever_else_there_is() -> None:
    assert appoint(FLOW, 9, members("a", "b", "c"), {"a": 10}, now=0.0).term == TERM
    assert appoint(FLOW, 9, members("a", "b", ready=False), {}, now=0.0).term == TERM
    # One that came newly knows nothing, one that slept knows something older.
    known = members("a", "b", "c")
    known["id-b"], known["id-c"] = replace(known["id-b"], term=OLD), replace(known["id-c"], term=None)
    assert appoint(FLOW, 9, known, {}, now=0.0).term == TERM


def test_only_the_runner_itself_can_end_its_term_and_no_other_than_that() -> None:
    assert runner(members("b", "a", over=True)) == "id-a"
    assert runner(members("a", "b", over=True, term=OLD)) == "id-a"
    # A request that comes late, from before it was appointed, while others know that it was.
    assert runner(members("a", "b", over=False, term=None)) == "id-a"
    assert runner(members("a", "b", over=True, heir="b")) == "id-b"


def test_a_new_term_has_the_number_of_its_generation() -> None:
    known = members("b", "c")
    one = appoint(FLOW, 9, known, {"b": 1}, now=0.0)
    assert (one.term.number, one.term.runner, one.leader.name) == (9, "id-c", "c")
    assert one.mates == {"id-b": MemberInfo("b", True), "id-c": MemberInfo("c", True)}


def test_every_member_learns_whether_the_runner_ends_by_itself() -> None:
    assert appoint(FLOW, 9, members("a", "b", until=True), {}, now=0.0).leader.until
    assert not appoint(FLOW, 9, members("b", "a", until=True), {}, now=0.0).leader.until


def test_who_ends_by_itself_comes_before_those_that_run_for_ever() -> None:
    """Of two runs that catch up the first has ended; beside a third process the other one could only fail."""
    known = {f"id-{name}": Member(name, ready=True, until=name == "b") for name in ("a", "b", "c")}
    assert runner(known, b=9) == "id-b"
    known["id-b"] = replace(known["id-b"], ready=False)
    assert runner(known, b=9) != "id-b"


def test_the_heir_gets_it_if_it_is_ready() -> None:
    known = members("a", "b", "c", over=True, heir="b")
    assert runner(known, a=5, b=4, c=0) == "id-b"
    known["id-b"] = replace(known["id-b"], ready=False)
    assert runner(known, a=5, b=0, c=4) == "id-c"
    del known["id-b"]
    assert runner(known, a=5, c=4) == "id-c"
    assert runner({"id-a": known["id-a"]}) == "id-a"


def test_ready_members_come_first_and_without_any_the_others() -> None:
    known = {name: Member(name, ready=name == "c") for name in "abc"}
    assert runner(known, c=9) == "c"
    known["c"] = replace(known["c"], ready=False)
    assert runner(known, a=1, b=1) == "c"


def test_where_one_packs_all_do() -> None:
    known = {name: Member(name, ready=True, packs=name == "c") for name in "abc"}
    assert runner(known, b=2, c=1) == "b"


def test_metadata_round_trips_and_unreadable_metadata_is_unknown() -> None:
    one = Member("a", {"topics": "0a"}, ready=True, packs=True, until=True, term=TERM, over=True, heir="b")
    assert Member.decode(one.encode()) == one
    known = Leadership(Member("a", {"topics": "0a"}, until=True), TERM, {"id-b": MemberInfo("b", False, ("topics",))})
    heard = Leadership.decode(known.encode())
    assert (heard, heard.mates) == (known, known.mates)
    for data in (b"", b"[]", b"\xff", b'{"term":[1],"mates":[],"settings":3,"over":1,"heir":0}'):
        assert Member.decode(data) == Member("unknown")
        assert Leadership.decode(data) == Leadership(Member("unknown"), LeaderTerm(0, "", 0.0))
