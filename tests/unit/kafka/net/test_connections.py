"""Connections follow the settings of their client: where brokers are looked for, how long, and what is kept open.

How the first of them are made is in `test_bootstrap`, how names become addresses in `test_wire`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import SaslAuthenticationFailedError
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from harness.wait import wait_for
from tests.unit.kafka.connecting import ENOUGH_S, QUICK, Connect
from tests.unit.kafka.fake_broker import FakeBroker
from twinlog.clock import SYSTEM
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.connections import LOGIN_AGAIN_S, connection_options, principal
from twinlog.kafka.net.loop import Loop
from twinlog.settings.client import ClientSettings


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
            loop.run(client.send_request, client._control.cluster.metadata_request())
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


# -- opening and keeping


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
            loop.run(client.send_request, client._control.cluster.metadata_request(), None, 0.5)
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


USER = "CN=mm,OU=x=2C"


def client(mechanism: str) -> ClientSettings:
    return ClientSettings(("a:1",), "SASL_SSL", sasl_mechanism=mechanism, sasl_username=USER, sasl_password="pässwört")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_what_delimits_fields_is_escaped(mechanism: str) -> None:
    message = SaslMechanismScram(**connection_options(client(mechanism), SYSTEM)).auth_bytes()
    assert message.startswith(b"n,,n=CN=3Dmm=2COU=3Dx=3D2C,r=")
    assert principal(client(mechanism)) == f"User:{USER}"


def test_plain_sends_the_name_as_it_is() -> None:
    message = SaslMechanismPlain(**connection_options(client("PLAIN"), SYSTEM)).auth_bytes()
    assert message == f"{USER}\0{USER}\0pässwört".encode()
