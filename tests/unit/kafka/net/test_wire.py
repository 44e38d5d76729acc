"""How the names of brokers become addresses, without holding up who asks something else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket

from tests.turns import let_others_go_on
from tests.unit.kafka.connecting import ENOUGH_S, QUICK, Connect
from tests.unit.kafka.fake_broker import FakeBroker
from twinlog.errors import ClusterError
from twinlog.kafka.net.loop import Loop, run_in_thread
from twinlog.kafka.net.wire import canonical


@pytest.fixture
def loop(turning_loop: Loop) -> Loop:
    return turning_loop


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
