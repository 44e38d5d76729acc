"""The first connections of a client: several servers, of which some hang, or are no brokers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from harness.wait import wait_for
from tests.unit.kafka.connecting import ENOUGH_S, QUICK, Connect
from tests.unit.kafka.fake_broker import METADATA, FakeBroker
from twinlog.errors import ClusterError
from twinlog.kafka.net.bootstrap import Bootstrap
from twinlog.kafka.net.loop import Loop


@pytest.fixture
def loop(turning_loop: Loop) -> Loop:
    return turning_loop


def test_one_silent_server_does_not_take_the_time_of_the_others(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as mute, FakeBroker() as broker:
        mute.mute = True
        broker.brokers = {1: broker.port}
        settings = replace(QUICK, connection_setup_timeout_ms=100, connection_setup_timeout_max_ms=200)
        for _ in range(4):
            client = clients(replace(settings, bootstrap_servers=(mute.address, broker.address)))
            loop.run(client.connect, ENOUGH_S)
            assert client.connected


def test_servers_that_hang_leave_time_for_the_one_that_answers(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as a connection may take to be made is all that most callers wait."""
    monkeypatch.setattr("twinlog.kafka.net.bootstrap.NEXT_S", 0.01)
    with ExitStack() as stack:
        brokers = [stack.enter_context(FakeBroker()) for _ in range(4)]
        last = brokers[-1]
        for one in brokers[:-1]:
            one.mute = True
        last.brokers = {number: one.port for number, one in enumerate(brokers)}
        settings = replace(QUICK, bootstrap_servers=tuple(one.address for one in brokers), retries=0)
        for _ in range(4):
            client = clients(replace(settings, connection_setup_timeout_ms=int(ENOUGH_S * 1000)))
            loop.run(client.connect, ENOUGH_S)
            # Nor is another one drawn for what any broker may answer.
            loop.run(client.send_request, client._control.cluster.metadata_request(), None, ENOUGH_S)
        wait_for(lambda: not any(one.connected for one in brokers[:-1]), ENOUGH_S, "those that hang are left alone")


@pytest.mark.parametrize("hangs", ["mute", "silent"])
def test_servers_that_hang_do_not_hold_up_a_second_bootstrap(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch, hangs: str
) -> None:
    """Before they have answered anything, or once they are connected; both for longer than the test."""
    monkeypatch.setattr("twinlog.kafka.net.bootstrap.NEXT_S", 0.01)
    with ExitStack() as stack:
        brokers = [stack.enter_context(FakeBroker()) for _ in range(4)]
        last = brokers[-1]
        last.brokers = {3: last.port}
        settings = replace(
            QUICK,
            bootstrap_servers=tuple(one.address for one in brokers),
            connection_setup_timeout_ms=int(ENOUGH_S * 10_000),
            request_timeout_ms=int(ENOUGH_S * 10_000),
        )
        for one in brokers[:-1]:
            setattr(one, hangs, True)
        for _ in range(4):
            client = clients(settings)
            loop.run(client.connect, ENOUGH_S)
            asked = last.asked
            begun = time.monotonic()
            loop.run(client._control._rebootstrap)
            assert time.monotonic() - begun < ENOUGH_S
            assert last.asked > asked


def test_a_server_that_hangs_once_it_is_connected_takes_no_longer_than_who_asks_waits(
    loop: Loop, clients: Connect
) -> None:
    with FakeBroker() as broker:
        broker.silent = True
        begun = time.monotonic()
        with pytest.raises(ClusterError, match=f"{broker.address}: no answer in time"):
            loop.run(clients(replace(QUICK, bootstrap_servers=(broker.address,))).connect, 3.0)
        assert time.monotonic() - begun < QUICK.request_timeout_ms / 1000


def test_a_server_that_knows_of_no_metadata_is_named_as_a_controller(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        del broker.knows[METADATA]
        with pytest.raises(ClusterError, match="is it the port of a controller"):
            loop.run(clients(replace(QUICK, bootstrap_servers=(broker.address,))).connect, 3.0)


def test_a_controller_that_connects_at_the_deadline_is_named_as_one(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def left_s(bootstrap: Bootstrap) -> float:
        seen.extend(one.connection for one in bootstrap._asked.values())
        return 0.0 if any(connection.init_future.is_done for connection in seen) else ENOUGH_S

    monkeypatch.setattr(Bootstrap, "_left_s", left_s)
    with FakeBroker() as broker:
        del broker.knows[METADATA]
        with pytest.raises(ClusterError, match="is it the port of a controller"):
            loop.run(clients(replace(QUICK, bootstrap_servers=(broker.address,))).connect, ENOUGH_S)


def test_where_no_server_answers_a_second_bootstrap_ends(loop: Loop, clients: Connect) -> None:
    """It is begun again with the next question."""
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)
        broker.close()
        control = client._control
        for _ in range(5):
            loop.run(control._rebootstrap)
        assert [node for node in control._conns if control.cluster.is_bootstrap(node)] == []


def test_what_any_broker_may_answer_is_asked_of_the_one_that_answered_last(loop: Loop, clients: Connect) -> None:
    """After the brokers were read anew each counts as one that can be reached."""
    with FakeBroker() as first, FakeBroker() as second:
        first.brokers = second.brokers = {1: first.port, 2: second.port}
        settings = replace(QUICK, connection_setup_timeout_ms=100, connection_setup_timeout_max_ms=200)
        client = clients(replace(settings, bootstrap_servers=(first.address, second.address)))
        control = client._control
        second.mute = True
        loop.run(client.connect)
        assert {control.least_loaded_node() for _ in range(20)} == {1}
        first.mute, second.mute = True, False

        def asks_the_other() -> bool:
            loop.run(control._rebootstrap)
            return {control.least_loaded_node() for _ in range(20)} == {2}

        wait_for(asks_the_other, ENOUGH_S, "the one that answers is asked")
