"""Calls are played in order, repeated where they wait, and kept without what belongs to one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from conformance.call import NO_BODY, Call, Json, Response, answered, connector_is, has_tasks, holds_offsets, lists
from conformance.names import Names
from conformance.play import by_arrangement, is_rebalance, play
from conformance.stage import Act, Arrangement, Resource, Stage

REBALANCE = Response(409, {}, {"error_code": 409, "message": "Cannot complete request because of a rebalance"})
TAKEN = Response(409, {}, {"error_code": 409, "message": "Connector a already exists"})


class _Stage:
    """Answers what it was given, the last one for ever."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.names = Names({"worker-1": "127.0.0.1:81"})
        self.asked: list[tuple[str, Json]] = []
        self._answers = list(answers)

    def send(
        self, request: str, *, to: str = "worker-1", body: Json = NO_BODY, headers: Mapping[str, str] | None = None
    ) -> Response:
        self.asked.append((request, body))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes where a call pauses, and nowhere else."""
    now = [0.0]
    monkeypatch.setattr("conformance.play.time.monotonic", lambda: now[0])
    monkeypatch.setattr("conformance.play.time.sleep", lambda pause: now.__setitem__(0, now[0] + pause))
    return now


def _played(stage: _Stage, *steps: Any) -> list[Any]:
    return list(play(Resource("r", Arrangement("plain"), steps), cast(Stage, stage), "4.3.0"))


def test_what_is_not_expected_is_asked_once() -> None:
    stage = _Stage(Response(404, {}, None))
    resource = Resource("r", Arrangement("plain"), (Call("a", "GET /", until=answered(200)),))
    (kept,) = play(resource, cast(Stage, stage), "4.3.0", lambda call: call == "a")
    assert (kept.status, kept.late, len(stage.asked)) == (404, None, 1)


def test_stand_ins_go_in_and_come_out_and_a_shape_is_applied() -> None:
    body = {"at": "127.0.0.1:81", "version": "4.3.0", "other": 1}
    stage = _Stage(Response(200, {"Location": "http://127.0.0.1:81/c"}, body))
    call = Call("a", "PUT /<worker-1>", {"k": "<worker-1>"}, shape=lambda found: {**found, "other": 0})
    (kept,) = _played(stage, call)
    assert stage.asked == [("PUT /127.0.0.1:81", {"k": "127.0.0.1:81"})]
    assert (kept.name, kept.request, kept.status) == ("a", "PUT /<worker-1>", 200)
    assert kept.headers == {"Location": "http://<worker-1>/c"}
    assert kept.body == {"at": "<worker-1>", "version": "<kafka>", "other": 0}


def test_a_call_is_repeated_until_it_holds() -> None:
    stage = _Stage(Response(404, {}, None), Response(404, {}, None), Response(200, {}, {"n": 1}))
    (kept,) = _played(stage, Call("a", "GET /", until=answered(200)))
    assert (kept.body, kept.late, len(stage.asked)) == ({"n": 1}, None, 3)


def test_what_never_holds_is_kept_as_it_was_last_and_says_so() -> None:
    (kept,) = _played(_Stage(Response(404, {}, {"n": 1})), Call("a", "GET /", until=answered(200)))
    assert (kept.status, kept.late) == (404, "status 200")


def test_a_rebalance_is_waited_out_and_a_conflict_is_not() -> None:
    stage = _Stage(REBALANCE, Response(201, {}, {}))
    assert [kept.status for kept in _played(stage, Call("a", "POST /", {}))] == [201]
    assert [kept.status for kept in _played(_Stage(TAKEN, Response(201, {}, {})), Call("a", "POST /", {}))] == [409]
    assert [kept.status for kept in _played(_Stage(REBALANCE), Call("a", "POST /", {}, conflicts=True))] == [409]
    (kept,) = _played(_Stage(REBALANCE), Call("a", "POST /", {}))
    assert (kept.status, kept.late) == (409, "no rebalance")


def test_a_broken_connection_is_an_answer() -> None:
    (kept,) = _played(_Stage(ConnectionResetError()), Call("a", "GET /"))
    assert (kept.status, kept.body) == (0, "ConnectionResetError")


def test_tasks_of_what_was_just_written_do_not_count_and_those_of_what_is_read_do() -> None:
    body = {"name": "a", "config": {}, "tasks": [{"task": 0}], "type": "source"}
    put, got = _played(_Stage(Response(200, {}, body)), Call("a", "PUT /a", {}), Call("b", "GET /a"))
    assert put.body == {**body, "tasks": ["<tasks>"]}
    assert got.body == body


def test_acts_happen_in_their_place() -> None:
    stage = _Stage(Response(200, {}, None))
    seen: list[int] = []
    act = Act("look", lambda _: seen.append(len(stage.asked)))
    _played(stage, Call("a", "GET /a"), act, Call("b", "GET /b"), act)
    assert seen == [1, 2]


def test_a_conflict_is_told_from_a_rebalance_by_its_words() -> None:
    assert is_rebalance(REBALANCE)
    assert is_rebalance(Response(500, {}, {"message": "Request cannot be completed because a rebalance is expected"}))
    gone = "IO Error trying to forward REST request: java.net.ConnectException: Connection refused"
    assert is_rebalance(Response(500, {}, {"message": gone}))
    assert not is_rebalance(TAKEN)
    assert not is_rebalance(Response(409, {}, "rebalance"))


def test_states_of_a_connector_and_its_tasks() -> None:
    status = {"connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}, {"state": "FAILED"}]}
    answer = Response(200, {}, status)
    assert not connector_is("RUNNING", 2).holds(answer)
    assert not connector_is("RUNNING", 1, "FAILED").holds(Response(200, {}, {**status, "tasks": []}))
    assert connector_is("RUNNING", 1, "FAILED").holds(Response(200, {}, {**status, "tasks": [{"state": "FAILED"}]}))
    assert not connector_is("RUNNING").holds(Response(404, {}, {"error_code": 404}))


def test_what_is_listed_with_or_without_expansion() -> None:
    assert lists("a", "b").holds(Response(200, {}, ["b", "a"]))
    assert lists("a").holds(Response(200, {}, {"a": {}}))
    assert not lists().holds(Response(200, {}, ["a"]))
    assert has_tasks(1).holds(Response(200, {}, {"tasks": [{}]}))
    assert holds_offsets(9).holds(Response(200, {}, {"offsets": [{"partition": {}, "offset": {"offset": 9}}]}))
    assert not holds_offsets(9).holds(Response(200, {}, {"offsets": []}))


def test_resources_share_the_workers_of_their_arrangement() -> None:
    one, other = Arrangement("one"), Arrangement("other")
    resources = [Resource("a", one, ()), Resource("b", other, ()), Resource("c", one, ())]
    assert {name: [each.name for each in group] for name, group in by_arrangement(resources).items()} == {
        "one": ["a", "c"],
        "other": ["b"],
    }
