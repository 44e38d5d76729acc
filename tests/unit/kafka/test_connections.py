"""Connections follow the settings of their client: where brokers are looked for, how long, and what is kept open."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError
from kafka.net.inet import KafkaNetSocket

from harness.wait import wait_for
from tests.turns import let_others_go_on
from tests.unit.kafka.connecting import Connect
from tests.unit.kafka.fake_broker import METADATA, FakeBroker
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.addresses import canonical
from twinlog.kafka.net.bootstrap import Bootstrap
from twinlog.kafka.net.connections import LOGIN_AGAIN_S
from twinlog.kafka.net.loop import Loop
from twinlog.kafka.net.run_in_thread import run_in_thread
from twinlog.settings.flow import ClientSettings

ENOUGH_S = 60.0
QUICK = ClientSettings((), reconnect_backoff_ms=10, reconnect_backoff_max_ms=20, retry_backoff_ms=10)


@pytest.fixture
def loop(turning_loop: Loop) -> Loop:
    return turning_loop


@pytest.fixture
def moved(loop: Loop, clients: Connect) -> Iterator[tuple[Callable[..., ClusterClient], FakeBroker, FakeBroker]]:
    """A function that connects a client to a broker, which then is at another address, as only the bootstrap server
    knows; and the broker where it was and where it is."""
    with FakeBroker() as bootstrap, FakeBroker() as before, FakeBroker() as now:
        bootstrap.brokers = before.brokers = {1: before.port}
        now.brokers = {1: now.port}

        def connect(**settings: Any) -> ClusterClient:
            client = clients(replace(QUICK, bootstrap_servers=(bootstrap.address,), **settings))
            loop.run(client.connect)
            loop.run(client.refresh, [])
            assert before.asked == 1
            bootstrap.brokers = {1: now.port}
            return client

        yield connect, before, now


def answered(loop: Loop, client: ClusterClient) -> bool:
    try:
        loop.run(client.refresh, [])
    except ClusterError:
        return False
    return True


# -- where brokers are looked for


def test_moved_brokers_are_found_by_the_bootstrap_servers(
    loop: Loop, moved: tuple[Callable[..., ClusterClient], FakeBroker, FakeBroker]
) -> None:
    connect, before, now = moved
    client = connect()
    before.close()
    wait_for(lambda: answered(loop, client) and now.asked, ENOUGH_S, "the broker is found where it is now")


def test_without_recovery_they_are_not(
    loop: Loop, moved: tuple[Callable[..., ClusterClient], FakeBroker, FakeBroker]
) -> None:
    connect, before, now = moved
    client = connect(rebootstrap=False)
    before.close()
    refused = [answered(loop, client) for _ in range(10)]
    assert not any(refused)
    assert now.connections == 0


def test_a_silent_broker_is_looked_for_elsewhere(
    loop: Loop, moved: tuple[Callable[..., ClusterClient], FakeBroker, FakeBroker]
) -> None:
    connect, before, now = moved
    client = connect(rebootstrap_trigger_ms=200, request_timeout_ms=50)
    before.silent = True
    begun = time.monotonic()
    wait_for(lambda: answered(loop, client) and now.asked, ENOUGH_S, "the broker is found where it is now")
    assert time.monotonic() - begun >= 0.2


def test_a_broker_is_reached_at_its_advertised_address(
    loop: Loop, moved: tuple[Callable[..., ClusterClient], FakeBroker, FakeBroker]
) -> None:
    connect, before, now = moved
    client = connect()
    before.brokers = {1: now.port}
    loop.run(client.refresh, [])
    wait_for(lambda: not before.connected, ENOUGH_S, "connections to where it was are closed")
    loop.run(client.refresh, [])
    assert now.asked


# -- questions that get no answer


def test_a_question_that_gets_no_answer_is_asked_again(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)
        broker.drop = 3
        loop.run(client.refresh, [])
        assert broker.drop == 0


def test_no_more_often_than_it_may_be(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,), retries=2))
        loop.run(client.connect)
        broker.drop = 1000
        before = broker.asked
        # The library asks too, when a connection is lost; so only this client's questions are counted.
        asked: list[Any] = []
        send = client._control.send
        client._control.send = lambda *these, **those: asked.append(these) or send(*these, **those)  # type: ignore[func-returns-value]
        with pytest.raises(ClusterError):
            loop.run(client.ask, client._control.cluster.metadata_request())
        assert broker.asked > before
        assert 3 <= len(asked) <= 3 + (broker.asked - before)


def test_no_longer_than_it_may_take(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker, FakeBroker() as other:
        broker.brokers = other.brokers = {1: broker.port, 2: other.port}
        settings = replace(QUICK, bootstrap_servers=(broker.address,), default_api_timeout_ms=400)
        client = clients(settings)
        loop.run(client.connect)
        broker.silent = other.silent = True
        begun = time.monotonic()
        with pytest.raises(ClusterError):
            loop.run(client.refresh, [])
        assert 0.3 < time.monotonic() - begun < settings.request_timeout_ms / 1000


def test_an_unreachable_broker_differs_from_a_silent_one(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)

        def fails(timeout_s: float) -> None:
            with pytest.raises(ClusterError):
                loop.run(client.send, client._control.cluster.metadata_request(), 1, timeout_s)

        broker.silent = True
        fails(0.1)
        assert not client.unreachable(1)
        broker.close()
        wait_for(lambda: not broker.connected, ENOUGH_S, "the broker is gone")
        for _ in range(3):
            fails(1.0)
            assert client.unreachable(1)


# -- opening


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
            loop.run(client.ask, client._control.cluster.metadata_request(), None, ENOUGH_S)
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


def test_a_connection_may_take_longer_after_each_failure(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(
            replace(
                QUICK,
                bootstrap_servers=(broker.address,),
                connection_setup_timeout_ms=50,
                connection_setup_timeout_max_ms=250,
                retries=0,
            )
        )
        control = client._control
        loop.run(client.connect)
        broker.mute = True
        times: set[float] = set()

        def grown() -> bool:
            answered(loop, client)
            times.add(control.socket_connection_setup_timeout_ms(1))
            return max(times) > 175

        wait_for(grown, ENOUGH_S, "the time for a connection grows")
        assert max(times) <= 300
        assert control.cut_off


def test_the_address_after_a_silent_one_is_tried_next(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        mine = KafkaNetSocket().dns_lookup("127.0.0.1", broker.port)
        (silent,) = KafkaNetSocket().dns_lookup("127.0.0.9", 9)
        tried: list[str] = []
        connect = KafkaNetSocket.sock_connect

        async def sock_connect(self: Any, net: Any, sock: Any, address: Any, timeout_at: float) -> Any:
            tried.append(address[0])
            if address[0] == "127.0.0.9":
                raise KafkaTimeoutError("silence")
            return await connect(self, net, sock, address, timeout_at)

        monkeypatch.setattr(KafkaNetSocket, "dns_lookup", lambda *_: [silent, *mine])
        monkeypatch.setattr(KafkaNetSocket, "sock_connect", sock_connect)
        client = clients(replace(QUICK, bootstrap_servers=(f"several.example:{broker.port}",)))
        loop.run(client.connect)
        assert tried[:2] == ["127.0.0.9", "127.0.0.1"]


def test_canonical_names(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {"one": ["10.0.0.1", "10.0.0.2"], "two": ["10.0.0.2"]}

    def getaddrinfo(host: str, port: int, *_: Any) -> list[Any]:
        if host not in hosts:
            raise socket.gaierror("unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in hosts[host]]

    def getnameinfo(address: tuple[str, int], _: int) -> tuple[str, str]:
        if address[0] == "10.0.0.2":
            raise socket.gaierror("no name")
        return "one.example.com", str(address[1])

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    assert canonical(["one:1", "two:1", "three:2"]) == ["one.example.com:1", "10.0.0.2:1", "three:2"]


def test_canonical_names_of_bootstrap_servers_are_used_only_when_set(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        monkeypatch.setattr("twinlog.kafka.net.connections.canonical", lambda servers: [broker.address])
        settings = replace(QUICK, bootstrap_servers=("alias.invalid:1",))
        loop.run(clients(replace(settings, canonical_bootstrap=True)).connect)
        with pytest.raises(ClusterError, match=r"alias\.invalid"):
            loop.run(clients(settings).connect, 0.2)


def test_the_loop_goes_on_while_names_are_looked_up(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = threading.Event(), threading.Event()
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}

        def slow(servers: Sequence[str]) -> list[str]:
            asked.set()
            assert answers.wait(ENOUGH_S)
            return [broker.address]

        monkeypatch.setattr("twinlog.kafka.net.connections.canonical", slow)
        settings = replace(QUICK, bootstrap_servers=("alias.invalid:1",), canonical_bootstrap=True)
        client = clients(settings)

        async def meanwhile() -> None:
            connecting = loop.spawn(client.connect)
            while not asked.is_set():
                await loop.sleep(0.001)
            await let_others_go_on(loop)
            assert not client.connected
            answers.set()
            await connecting

        loop.run(meanwhile)
        assert client.connected


def test_names_that_cannot_be_looked_up_are_an_error_of_who_asked(loop: Loop) -> None:
    def fail() -> None:
        raise LookupError("no such name")

    with pytest.raises(LookupError, match="no such name"):
        loop.run(run_in_thread, loop.net, fail)


# -- keeping


def test_an_idle_connection_is_closed_and_opened_again(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,), connections_max_idle_ms=200))
        loop.run(client.connect)
        loop.run(client.refresh, [])
        made = broker.connections
        wait_for(lambda: not broker.connected, ENOUGH_S, "the idle connection is closed")
        loop.run(client.refresh, [])
        assert broker.connections == made + 1


def test_a_connection_that_waits_for_an_answer_is_not_idle(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        settings = replace(QUICK, bootstrap_servers=(broker.address,), connections_max_idle_ms=50, retries=0)
        client = clients(settings)
        loop.run(client.connect)
        broker.silent = True
        begun = time.monotonic()
        with pytest.raises(ClusterError):
            loop.run(client.ask, client._control.cluster.metadata_request(), None, 0.5)
        assert time.monotonic() - begun >= 0.4


def test_a_login_that_was_refused_is_tried_again_after_a_while(loop: Loop, clients: Connect) -> None:
    client = clients(QUICK)
    for connections in (client._control, client._data, client._changes):
        connections._auth_failures[1] = SaslAuthenticationFailedError("no")
        connections._refused_at[1] = time.monotonic()
        with pytest.raises(SaslAuthenticationFailedError):
            connections.maybe_raise_auth_failure(1)
        connections._refused_at[1] -= LOGIN_AGAIN_S + 1
        connections.maybe_raise_auth_failure(1)
        connections.maybe_raise_auth_failure(1)


def test_a_broker_without_the_mechanism_is_quoted_with_those_that_it_has(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.mechanisms = (b"SCRAM-SHA-256", b"PLAIN")
        login = replace(
            QUICK,
            bootstrap_servers=(broker.address,),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="u",
            sasl_password="p",
        )
        with pytest.raises(RefusedError, match=r"has no mechanism SCRAM-SHA-512; it has PLAIN, SCRAM-SHA-256\)"):
            loop.run(clients(login).connect)
