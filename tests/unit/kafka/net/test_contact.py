"""Whether a cluster answers, and which of several reasons is read where a broker cannot be reached."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from kafka.errors import IllegalSaslStateError, KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError

from harness.virtual.clock import VirtualClock
from harness.wait import wait_for
from tests.unit.kafka.connecting import QUICK, Connect
from tests.unit.kafka.fake_broker import FakeBroker
from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.net.connections import LOGIN_AGAIN_S
from twinlog.kafka.net.contact import SILENT_S, SURE_S, Contact
from twinlog.kafka.net.frames import FrameConnection
from twinlog.kafka.net.loop import Loop


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def contact(clock: VirtualClock) -> Contact:
    return Contact(lambda: "refused", clock.monotonic)


def test_nothing_is_known_before_the_first_answer(contact: Contact) -> None:
    reach = contact.reach()
    assert (reach.out, reach.heard_s) == (False, -1.0)
    assert contact.heard_s == float("inf")


def test_what_fails_is_an_outage_once_it_lasts(contact: Contact, clock: VirtualClock) -> None:
    contact.record_answer(contact.record_request(1))
    clock.now += 5
    contact.record_failure(contact.record_request(1))
    assert not contact.reach().out
    clock.now += SURE_S
    contact.record_failure(contact.record_request(None))
    reach = contact.reach()
    assert (reach.out_s, reach.heard_s, reach.why) == (SURE_S, 5 + SURE_S, "refused")
    contact.record_answer(contact.record_request(2))
    assert not contact.reach().out


def test_a_question_that_stays_open_is_an_outage_since_it_was_asked(contact: Contact, clock: VirtualClock) -> None:
    contact.record_answer(contact.record_request(1))
    number = contact.record_request(1, 0.5)
    clock.now += SILENT_S
    assert not contact.reach().out
    clock.now += 1
    assert contact.reach().out_s == SILENT_S + 1
    assert contact.reach().why == "no answer"
    clock.now += 26
    contact.record_failure(number)
    clock.now += SURE_S
    assert contact.reach().out_s == SILENT_S + 27 + SURE_S


def test_one_silent_broker_is_no_outage_while_others_answer(contact: Contact, clock: VirtualClock) -> None:
    contact.record_request(1)
    for _ in range(20):
        clock.now += 1
        contact.record_answer(contact.record_request(2))
        assert not contact.reach().out
    clock.now += SILENT_S + 1
    assert contact.reach().out_s == SILENT_S + 1


def test_a_dropped_request_does_not_count_as_unanswered(contact: Contact, clock: VirtualClock) -> None:
    contact.drop_request(contact.record_request(1))
    clock.now += 60
    assert not contact.reach().out


def test_only_data_connections_count_for_the_age_of_data(contact: Contact, clock: VirtualClock) -> None:
    contact.record_answer(contact.record_request(1))
    assert contact.data_at(1) is None
    clock.now += 1
    contact.record_answer(contact.record_request(1), data=0)
    assert contact.data_at(1) == clock.now
    assert contact.data_at(1, 1) is None


def test_the_oldest_open_question_is_what_is_waited_for(contact: Contact, clock: VirtualClock) -> None:
    assert contact.waits() is None
    first = contact.record_request(2)
    clock.now += 4
    contact.record_request(None)
    assert contact.waits() == (2, 4.0)
    contact.record_answer(first)
    assert contact.waits() == (None, 0.0)


@pytest.mark.parametrize("later", [KafkaTimeoutError("Timeout during ApiVersions check"), KafkaTimeoutError()])
@pytest.mark.parametrize(
    ("first", "read"),
    [
        (KafkaConnectionError("Handshake failed: alert of the other side"), "alert of the other side"),
        (IllegalSaslStateError("no"), "the port does not want a login"),
    ],
)
def test_a_timeout_hides_no_better_reason(
    loop: Loop,
    clients: Connect,
    monkeypatch: pytest.MonkeyPatch,
    first: Exception,
    read: str,
    later: Exception,
) -> None:
    """As on a busy machine, where the last attempt of a caller has no time left when its turn comes."""
    reasons = iter([first])

    async def ask_versions(*_: Any) -> None:
        raise next(reasons, later)

    monkeypatch.setattr(FrameConnection, "_get_api_versions", ask_versions)
    with FakeBroker() as broker:
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        with pytest.raises(ClusterError, match=read):
            loop.run(client.connect, 0.3)
        assert next(reasons, None) is None


def test_a_refused_login_is_read_although_the_next_one_timed_out(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logins go on on each of a client's three managers, and a refusal is forgotten there after a while."""
    refused = SaslAuthenticationFailedError("SaslAuthenticationFailed: wrong password")
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)
        errors = iter([refused])

        async def ask_versions(*_: Any) -> None:
            raise next(errors, KafkaTimeoutError("Timeout during ApiVersions check"))

        monkeypatch.setattr(FrameConnection, "_get_api_versions", ask_versions)
        request = client._control.cluster.metadata_request()
        with pytest.raises(RefusedError, match="wrong password"):
            loop.run(client.send, request, 1)
        client._data._refused_at[1] -= LOGIN_AGAIN_S + 1
        client._data.reset_backoff(1)
        with pytest.raises(ClusterError):
            loop.run(client.send, request, 1)
        assert "wrong password" in client._why_unreachable()
        client._control.failures[f"127.0.0.1:{broker.port}"] = KafkaTimeoutError("Connection timed out")
        assert "wrong password" in client._why_unreachable()


def test_a_broker_that_is_gone_is_named_with_its_address(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)
        request = client._control.cluster.metadata_request()
        address = broker.address
    with pytest.raises(ClusterError, match=f"broker 1 cannot be reached: {address}: connection refused"):
        loop.run(client.send, request, 1)


def test_what_this_process_may_not_send_any_more_is_no_fault_of_a_broker(loop: Loop, clients: Connect) -> None:
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(broker.address,)))
        loop.run(client.connect)
        request = client._control.cluster.metadata_request()
        loop.run(client.send, request, 1)
        client._data.may_send = lambda: False
        with pytest.raises(ClusterError):
            loop.run(client.send, request, 1)
        assert client._why_unreachable() == "no answer"


def test_a_bootstrap_server_that_takes_no_connection_gave_no_answer_in_time(loop: Loop, clients: Connect) -> None:
    """As behind a firewall that drops packets: this side closes the connection, which is not the reason."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as waiting:
        for _ in range(3):
            sock = waiting.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        address = f"127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises(ClusterError, match=rf"no broker can be reached: {address}: no answer in time; is the"):
            loop.run(clients(replace(QUICK, bootstrap_servers=(address,))).connect, 0.3)


def test_what_is_no_name_of_a_host_is_read_as_the_reason(loop: Loop, clients: Connect) -> None:
    with pytest.raises(ClusterError, match=r"no broker can be reached: a\.\.b:9092: UnicodeError: .*label empty"):
        loop.run(clients(replace(QUICK, bootstrap_servers=("a..b:9092",))).connect, 0.3)
    with FakeBroker() as broker:
        broker.brokers = {1: broker.port}
        for _ in range(4):
            loop.run(clients(replace(QUICK, bootstrap_servers=("a..b:9092", broker.address))).connect)


def test_a_bootstrap_server_that_another_one_was_faster_than_has_not_failed(
    loop: Loop, clients: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinlog.kafka.net.bootstrap.NEXT_S", 0.01)
    # The one that hangs is asked first.
    monkeypatch.setattr("twinlog.kafka.net.bootstrap.random.sample", lambda servers, _: list(servers))
    with FakeBroker() as mute, FakeBroker() as broker:
        mute.mute = True
        broker.brokers = {1: broker.port}
        client = clients(replace(QUICK, bootstrap_servers=(mute.address, broker.address)))
        ended: list[Any] = []
        connect = client._control._connect

        async def connects(node: Any, *these: Any, **those: Any) -> None:
            await connect(node, *these, **those)
            ended.append(node.node_id)

        monkeypatch.setattr(client._control, "_connect", connects)
        loop.run(client.connect)

        def left_alone() -> bool:
            loop.run(client.refresh, [])
            return "bootstrap-0" in ended

        wait_for(left_alone, 60, "the one that hangs is left alone")
        assert client._control.failures == {}
