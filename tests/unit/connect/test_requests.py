"""Requests to a worker: when it may change something, and what it answers about offsets and topics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.virtual.clock import BEGIN, VirtualClock
from tests.unit.worker.connectors.test_validation import WORKER as FILE
from tests.unit.worker.control.controlling import PARTS, Scene, scene
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.group.member import Assignment
from twinlog.connect.requests import FENCE_S, GROUP_S, OffsetRequests, RequestGuard, TopicRequests
from twinlog.errors import ClusterError, NotOwnerError, RefusedError, RequestError, UnavailableError
from twinlog.settings.worker import GroupSettings
from twinlog.worker.connectors.model import ConnectorName, StoredOffset, TargetState, TopicControlRequest

WORKER = worker_of(parse_properties(FILE, "w.properties"), "w.properties")
GROUP = cast(GroupSettings, WORKER.settings.group)
LEADS = Assignment(1, "http://leader", leads=True, connectors=frozenset(), owners={})


def permission(errors: list[ClusterError], done: list[str]) -> RequestGuard:
    started = threading.Event()
    started.set()

    def fence(_: Assignment) -> None:
        if errors:
            raise errors.pop()
        done.append("fenced")

    group = SimpleNamespace(
        assignment=LEADS, term=1, reason=None, leads_for_s=lambda: 5.0, confirm_membership=lambda term: term == 1
    )
    thread = SimpleNamespace(
        group=group,
        started=started,
        left=False,
        changing=threading.Lock(),
        duties=SimpleNamespace(fence_earlier_leaders=fence),
    )
    state = SimpleNamespace(read_configs=lambda: done.append("read"))
    return RequestGuard(cast(Any, state), cast(Any, thread), VirtualClock(), GROUP)


def test_a_change_waits_while_earlier_leaders_cannot_be_fenced_yet() -> None:
    """A cluster makes its topic of transactions when somebody asks for the first."""
    done: list[str] = []
    with permission([ClusterError("no coordinator yet")] * 3, done).as_leader():
        done.append("changed")
    assert done == ["fenced", "read", "changed"]


@pytest.mark.parametrize("errors", [[RefusedError("no right")], [ClusterError("down")] * round(FENCE_S * 100)])
def test_it_does_not_wait_for_ever(errors: list[ClusterError]) -> None:
    done: list[str] = []
    with pytest.raises(RequestError) as refused, permission(errors, done).as_leader():
        done.append("changed")
    assert (refused.value.status, done) == (500, [])


class Starting:
    """A worker that starts, or is outside its group, while requests wait; `after` changes it once time has passed."""

    def __init__(
        self, assignment: Assignment | None = None, *, started: bool = False, group: GroupSettings = GROUP
    ) -> None:
        self.clock = VirtualClock()
        self.group = SimpleNamespace(assignment=assignment, leads_for_s=lambda: 5.0)
        self.thread = SimpleNamespace(group=self.group, started=threading.Event(), left=False, stage="It reads.")
        if started:
            self.thread.started.set()
        state = SimpleNamespace(has_connector=lambda name: name == "known")
        self.may = RequestGuard(cast(Any, state), cast(Any, self.thread), self.clock, group)
        self._left: list[tuple[float, Callable[[], object]]] = []
        self._sleep = self.clock.sleep
        self.clock.sleep = self._pass  # type: ignore[method-assign]

    def after(self, seconds: float, change: Callable[[], object]) -> None:
        self._left.append((self.clock.now + seconds, change))

    def _pass(self, seconds: float) -> None:
        self._sleep(seconds)
        for at, change in self._left:
            if at <= self.clock.now:
                change()

    @property
    def waited_s(self) -> float:
        return round(self.clock.now - BEGIN)


def test_a_request_waits_for_the_state_and_a_change_for_the_group_too() -> None:
    worker = Starting()
    worker.after(20, worker.thread.started.set)
    worker.may.require_started()
    assert worker.waited_s == 20
    worker.after(30, lambda: setattr(worker.group, "assignment", LEADS))
    assert worker.may.wait_assignment() is LEADS
    assert worker.waited_s == 50


def test_who_waited_in_vain_hears_what_the_worker_does() -> None:
    for wait in (RequestGuard.require_started, RequestGuard.wait_assignment):
        worker = Starting()
        with pytest.raises(RequestError, match=r"^Request timed out\. It reads\.$") as late:
            wait(worker.may)
        assert late.value.status == 500
        assert worker.waited_s == GROUP_S


def test_who_waits_for_a_worker_that_stops_is_sent_away_at_once() -> None:
    worker = Starting(started=True)
    worker.after(2, lambda: setattr(worker.thread, "left", True))
    with pytest.raises(UnavailableError):
        worker.may.wait_assignment()
    assert worker.waited_s == 2


def test_a_request_waits_for_the_worker_that_gets_a_new_connector() -> None:
    name = ConnectorName("known")
    mine = replace(LEADS, connectors=frozenset({name}))
    theirs = replace(LEADS, owners={name: "http://other"})
    for found in (mine, theirs):
        worker = Starting(LEADS, started=True)
        worker.after(3, partial(setattr, worker.group, "assignment", found))
        if found is mine:
            worker.may.require_own(name)
        else:
            with pytest.raises(NotOwnerError) as owner:
                worker.may.require_own(name)
            assert owner.value.url == "http://other"
        assert worker.waited_s == 3


@pytest.mark.parametrize(
    ("name", "session_ms", "waits_s"), [("known", 6_000, 15.0), ("known", 20_000, 43.0), ("unknown", 6_000, 0.0)]
)
def test_a_connector_that_nobody_gets_is_not_waited_for_for_ever(name: str, session_ms: int, waits_s: float) -> None:
    """The worker that had the connector may have been killed during a rebalance: its session begins twice."""
    worker = Starting(LEADS, started=True, group=replace(GROUP, session_timeout_ms=session_ms))
    with pytest.raises(NotOwnerError) as nobody:
        worker.may.require_own(ConnectorName(name))
    assert (nobody.value.url, worker.waited_s) == ("", waits_s)


C = ConnectorName("c")
HERE = {"cluster": "a", "partition": 0, "topic": "t"}
STORED = [
    StoredOffset(HERE, {"offset": 4}),
    StoredOffset({**HERE, "partition": 1}, {"offset": -1}),
    StoredOffset({"cluster": "a", "twinlog": "start"}, {"at": 1}),
    StoredOffset({"cluster": "a", "twinlog": "start", "topic": "t"}, {"at": 1, "id": None, "begins": []}),
]


class Offsets:
    def __init__(self) -> None:
        self.put_: list[StoredOffset] = []

    def read_offsets(self, name: ConnectorName) -> list[StoredOffset]:
        assert name == C
        return STORED

    def replace_offsets(self, name: ConnectorName, offsets: Sequence[StoredOffset]) -> None:
        assert name == C
        self.put_ += offsets


def asked(step: Callable[[], Any]) -> Any:
    return step()


def requests() -> tuple[OffsetRequests, Offsets]:
    offsets: Any = Offsets()
    state: Any = SimpleNamespace(read_configs=lambda: None, query_state=lambda _: (TargetState.STOPPED, 0))
    thread: Any = SimpleNamespace(standing_still=lambda *_: nullcontext())
    nothing = dict.fromkeys(("require_started", "require_known", "require_own"), lambda *_: None)
    permission: Any = SimpleNamespace(call_step=asked, **nothing)
    return OffsetRequests(state, offsets, thread, permission), offsets


def test_only_offsets_are_shown() -> None:
    assert requests()[0].read(C) == STORED[:1]


def test_a_reset_lets_the_flow_start_for_the_first_time_again() -> None:
    found, offsets = requests()
    found.reset(C)
    assert offsets.put_ == [StoredOffset(one.partition, None) for one in STORED]


NAME = ConnectorName("c")


@pytest.fixture
def here() -> Iterator[Scene]:
    with scene() as found:
        yield found


Asks = Callable[..., Any]


@pytest.fixture
def ask(here: Scene) -> Asks:
    """Asks something of the topic `t`, by no process that runs its flow."""
    flows: Any = SimpleNamespace(build=lambda name: (SimpleNamespace(settings=here.settings), None))
    nothing = {"require_started": lambda: None, "require_known": lambda name: None}
    may: Any = SimpleNamespace(**nothing, call_step=lambda step: step())
    requests = TopicRequests(WORKER.settings, flows, may, lambda alias, client: here.connect(alias))

    def call(verb: str, *topics: str, **more: Any) -> Any:
        return requests.submit_request(NAME, TopicControlRequest(verb, topics or ("t",), **more))

    call.read = lambda: requests.read(NAME)  # type: ignore[attr-defined]
    return call


def message(call: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(RequestError) as caught:
        call()
    return caught.value.status, caught.value.message


def test_what_repeats_or_loses_records_is_confirmed(here: Scene, ask: Asks) -> None:
    status, text = message(lambda: ask("restart-from", to=("earliest", "")))
    assert status == 400
    assert "0 source offsets would be passed over and never copied, 30 would be copied again" in text
    assert here.journal.read().outcomes == ()
    found = ask("restart-from", to=("earliest", ""), confirm=True, id="x")
    assert (found["id"], found["result"], found["to"]) == ("x", "requested", "earliest")
    # Without a word it has the outcome by its id.
    assert ask("restart-from", to=("earliest", ""), id="x") == found
    here.process().control.run_commands()
    done = ask("restart-from", to=("earliest", ""), id="x")
    assert (done["result"], [one["to"] for one in done["partitions"]]) == ("applied", [0, 0, 0])


def test_a_dry_run_asks_nothing(here: Scene, ask: Asks) -> None:
    here.write(1, 4)
    found = ask("skip-to", to=("latest", ""), dry_run=True)
    assert [(one["partition"], one["passed_over"], one["changes"]) for one in found["partitions"]] == [
        (0, 0, False),
        (1, 4, True),
        (2, 0, False),
    ]
    assert found["dry_run"] is True
    assert here.journal.read().outcomes == ()


def test_pause_needs_no_word(here: Scene, ask: Asks) -> None:
    assert ask("pause", partitions=(2,))["result"] == "requested"
    assert here.process().planned == set(PARTS[:2])
    (topic,) = ask.read()["topics"]  # type: ignore[attr-defined]
    assert topic["topic"] == "t"


@pytest.mark.parametrize(
    ("verb", "more", "text"),
    [
        ("restart-from", {}, "restart-from needs 'to', a place in the source"),
        ("pause", {"to": ("earliest", "")}, "pause takes no 'to'"),
        ("skip-to", {"to": ("offset", "-3")}, "'-3' is no offset"),
        ("skip-to", {"to": ("offset", str(1 << 63))}, "is no offset"),
        ("skip-to", {"to": ("time", "tomorrow")}, "'tomorrow' is no moment"),
        ("skip-to", {"to": ("time", "1850-01-01")}, "is before 1970, or too far away"),
        (
            "skip-to",
            {"to": ("earliest", "")},
            "The command was dropped, as all partitions would stay as they are: it is there already",
        ),
        ("accept-gap", {}, "The command was dropped, as all partitions would stay as they are: there is no gap"),
    ],
)
def test_what_is_wrong_is_refused(here: Scene, ask: Asks, verb: str, more: dict[str, Any], text: str) -> None:
    if verb == "skip-to" and more["to"][0] == "earliest":
        for part in PARTS:
            here.source.log("t", part.partition).delete_before(10)
    status, found = message(lambda: ask(verb, **more))
    assert status == 400
    assert text in found
    assert here.journal.read().outcomes == ()


def test_a_time_is_one_of_iso_8601_or_milliseconds(here: Scene, ask: Asks) -> None:
    for value in ("2026-11-01T00:00:00Z", "1793491200000"):
        assert ask("skip-to", to=("time", value), dry_run=True)["to"] == "time 2026-11-01T00:00:00Z"


def test_a_topic_that_is_not_mirrored_is_named(here: Scene, ask: Asks) -> None:
    assert message(lambda: ask("pause", "u"))[1].startswith("u matches no topic that east->west mirrors")


def test_a_connector_that_copies_nothing_is_refused(here: Scene) -> None:
    may: Any = SimpleNamespace(require_started=lambda: None, require_known=lambda name: None)
    for built, text in (
        ((None, "topics: missing"), "The configuration of connector c is unusable: topics: missing"),
        ((SimpleNamespace(settings=SimpleNamespace(copies=False)), None), "Connector c copies no topics."),
    ):
        flows: Any = SimpleNamespace(build=lambda name, built=built: built)
        requests = TopicRequests(WORKER.settings, flows, may)
        assert message(lambda requests=requests: requests.read(NAME)) == (400, text)  # type: ignore[misc]
