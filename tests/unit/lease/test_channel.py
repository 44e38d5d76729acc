"""A driver and a task of two versions: both notice at once, and both name the versions."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Listener

import pytest

from harness.wait import wait_for
from twinlog import __version__
from twinlog.copier.copier_thread import CopierThread
from twinlog.errors import DriverLostError, MessageError, VersionMismatchError
from twinlog.lease.channel import Channel, DriverAddress, LeaseTicket, greet_as_copier, greet_as_planner
from twinlog.lease.lease_server import LeaseServer, QueryFlows
from twinlog.lease.leases import Leases
from twinlog.lease.messages import VERSION, Claim, LeaseEnded, Stop, encode
from twinlog.model.types import TopicName, TopicPartition
from twinlog.spark.source import LeaseReader
from twinlog.spark.warm_up import SETTINGS

FLOW = SETTINGS.name
NEWER = VERSION + 1
SHARE = frozenset({TopicPartition(TopicName("t"), 0)})


class Driver:
    """A real lease server with one flow; remembers what that flow heard of other versions."""

    def __init__(self) -> None:
        self.mismatches: list[str | None] = []
        self.leases = Leases(FLOW, lambda parts: [], lambda *_: None, lambda *_: None, mismatch=self.mismatches.append)
        self.server = LeaseServer("127.0.0.1", {FLOW: self.leases})

    def call(self, first: dict[str, object]) -> bytes:
        """What a caller that sends this first hears, up to the end of its line."""
        line = Channel.open(self.server.address)
        line.connection.send_bytes(json.dumps(first).encode())
        heard = line.receive_bytes()
        with pytest.raises(EOFError):
            line.receive_bytes()
        line.close()
        return heard


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.leases.stop(0)
    driver.server.close()


Answering = Callable[[bytes | None], DriverAddress]


@pytest.fixture
def answering() -> Iterator[Answering]:
    """A driver that answers the first message with these bytes, or hangs up."""
    listener = Listener(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(answer: bytes | None) -> None:
        line = Channel(listener.accept())
        line.challenge(b"secret")
        line.receive_bytes()
        if answer is not None:
            line.connection.send_bytes(answer)
        line.close()

    def start(answer: bytes | None) -> DriverAddress:
        threads.append(threading.Thread(target=serve, args=(answer,), daemon=True))
        threads[-1].start()
        return DriverAddress("127.0.0.1", int(listener.address[1]), b"secret")

    yield start
    for thread in threads:
        thread.join(60)
    listener.close()


UNREADABLE = b"ctwinlog.settings.added\nAddedSettings\n."
"""Pickled where a class was that is missing here."""


def hello(version: int, release: str, **names: str) -> dict[str, object]:
    return {"type": "Hello of another time", "version": version, "release": release, **names}


def test_a_copier_of_another_version_is_sent_away_and_the_driver_reports_it(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        answer = driver.call(hello(NEWER, "9.9", flow=FLOW, copier=f"host-{number}"))
        assert json.loads(answer) == {"type": "Welcome", "version": VERSION, "release": __version__}
    wait_for(lambda: len(driver.mismatches) == 3, 60, "the flow hears of it each time")
    logged = (
        f"copier host-0 has protocol version {NEWER} (twinlog 9.9), its driver protocol version {VERSION} "
        f"(twinlog {__version__}): they cannot work together. the driver has the older wheel: install the same one in "
        "both places, then start twinlog again"
    )
    assert driver.mismatches[0] == f"TW-LEASE-05: {logged}"
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        f"TW-LEASE-05: {logged}"
    ]
    assert not driver.leases._ledger.sessions


def test_a_copier_without_a_version_is_sent_away(driver: Driver) -> None:
    """As the first releases sent it."""
    driver.call({"type": "hello", "flow": FLOW, "copier": "host-0"})
    wait_for(lambda: bool(driver.mismatches), 60, "the flow hears of it")
    assert str(driver.mismatches[0]).startswith(
        "TW-LEASE-05: copier host-0 has no protocol version (an earlier twinlog), its driver"
    )


def test_what_was_reported_is_over_once_every_share_has_its_copier(driver: Driver) -> None:
    lease = driver.leases.plan((SHARE,))
    driver.call(hello(NEWER, "9.9", flow=FLOW, copier="host-0"))
    wait_for(lambda: len(driver.mismatches) == 1, 60, "the flow hears of it")
    line = Channel.open(driver.server.address)
    greet_as_copier(line, FLOW, "host-1")
    line.send(Claim(lease))
    wait_for(lambda: driver.mismatches[1:] == [None], 60, "the flow hears that it is over")
    line.close()


def test_a_planner_of_another_version_is_sent_away(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    bundle = driver.server.bundles["q"] = QueryFlows("q", [driver.leases])
    driver.call(hello(NEWER, "9.9", query="q"))
    wait_for(lambda: "the planner of query q has protocol version" in caplog.text, 60, "it is logged")
    wait_for(lambda: bundle.mismatch is not None, 60, "its query knows")
    assert str(bundle.mismatch) in caplog.text


def test_a_copier_ends_before_it_does_anything_when_its_driver_has_another_version(
    answering: Answering,
) -> None:
    address = answering(json.dumps(hello(NEWER, "9.9")).encode())
    before = threading.active_count()
    with pytest.raises(VersionMismatchError) as ended:
        CopierThread(replace(LeaseTicket.of(SETTINGS, address, 1, 0), pickled=UNREADABLE))
    assert (
        f"has protocol version {VERSION} (twinlog {__version__}), its driver protocol version {NEWER} (twinlog 9.9)"
        in str(ended.value)
    )
    assert "the executors (or Spark's driver) have the older wheel" in str(ended.value)
    assert threading.active_count() <= before


def test_a_planner_ends_when_its_driver_has_another_version(
    answering: Answering,
) -> None:
    address = answering(b'{"shares":[]}')
    with pytest.raises(VersionMismatchError, match="its driver no protocol version"):
        LeaseReader("q", address, UNREADABLE).latestOffset({"lease": 0}, None)


def test_a_driver_that_hangs_up_may_be_older(answering: Answering) -> None:
    line = Channel.open(answering(None))
    with pytest.raises(DriverLostError, match=f"copier one, which has protocol version {VERSION}"):
        greet_as_copier(line, FLOW, "one")
    line.close()


def test_a_driver_of_the_same_version_must_welcome(answering: Answering) -> None:
    line = Channel.open(answering(json.dumps({"type": "Stop", "version": VERSION}).encode()))
    with pytest.raises(MessageError, match="message Stop has unknown field version"):
        greet_as_planner(line, "q")
    line.close()


def test_a_message_that_no_copier_sends_ends_its_line(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    for wrong in (encode(LeaseEnded(1)), b'{"type":"Claim"}'):
        line = Channel.open(driver.server.address)
        greet_as_copier(line, FLOW, "one")
        line.connection.send_bytes(wrong)
        with pytest.raises(EOFError):
            line.receive()
        line.close()

    def logged(why: str) -> bool:
        return why in caplog.text

    for why in (
        "copier one sent LeaseEnded, which it may not send",
        "message Claim lacks field bridge, lacks field lease",
    ):
        wait_for(partial(logged, why), 60, "it is logged")
    wait_for(lambda: not driver.leases._ledger.sessions, 60, "both are gone")


def test_a_planner_that_asks_for_nothing_it_may_is_cut_off(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    driver.server.bundles["q"] = QueryFlows("q", [driver.leases])
    line = Channel.open(driver.server.address)
    greet_as_planner(line, "q")
    line.send(Stop())
    with pytest.raises(EOFError):
        line.receive()
    line.close()
    wait_for(lambda: "a planner sent Stop" in caplog.text, 60, "it is logged")


def test_a_greeting_must_come_first(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    line = Channel.open(driver.server.address)
    line.connection.send_bytes(json.dumps({"type": "Claim", "version": VERSION, "lease": 1}).encode())
    line.receive_bytes()
    with pytest.raises(EOFError):
        line.receive_bytes()
    line.close()
    wait_for(lambda: "a connection was closed" in caplog.text, 60, "it is logged")
