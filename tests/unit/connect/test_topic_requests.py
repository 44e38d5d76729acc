"""What a worker asks of topics of a connector: confirmed where it costs something, refused where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.connectors.test_validation import WORKER as FILE
from tests.unit.worker.control.controlling import PARTS, Scene, scene
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect.requests import TopicRequests
from twinlog.connectors.model import ConnectorName, TopicControlRequest
from twinlog.errors import RequestError

NAME = ConnectorName("c")
WORKER = worker_of(parse_properties(FILE, "w.properties"), "w.properties")


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
        ("skip-to", {"to": ("earliest", "")}, "Nothing would change, so that nothing was asked: it is there already"),
        ("accept-gap", {}, "Nothing would change, so that nothing was asked: there is no gap"),
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
    assert message(lambda: ask("pause", "u"))[1].startswith("u is no topic that east->west mirrors")


def test_a_connector_that_copies_nothing_is_refused(here: Scene) -> None:
    may: Any = SimpleNamespace(require_started=lambda: None, require_known=lambda name: None)
    for built, text in (
        ((None, "topics: missing"), "The configuration of connector c cannot be used: topics: missing"),
        ((SimpleNamespace(settings=SimpleNamespace(copies=False)), None), "Connector c copies no topics."),
    ):
        flows: Any = SimpleNamespace(build=lambda name, built=built: built)
        requests = TopicRequests(WORKER.settings, flows, may)
        assert message(lambda requests=requests: requests.read(NAME)) == (400, text)  # type: ignore[misc]
