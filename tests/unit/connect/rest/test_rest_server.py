"""The server: listeners of every kind, TLS, what is advertised, the way to other workers, and its end."""

from __future__ import annotations

import errno
import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from harness.certificates import Certified, authority
from harness.wait import wait_for
from tests.unit.connect.fake_herder import FakeHerder
from tests.unit.connect.serving import DEADLINE_S, LOOPBACK, Client, Response, serving
from twinlog.clock import SYSTEM, SystemClock
from twinlog.connect.rest import serving as listening
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.forward import Forwarder
from twinlog.connect.rest.server import RestServer, Tls
from twinlog.connect.rest.users import Users
from twinlog.errors import NotOwnerError
from twinlog.errors.message_ids import id_of
from twinlog.settings.worker import ListenerAddress, RestSettings

HTTP, HTTPS = ListenerAddress("http", "127.0.0.1", 0), ListenerAddress("https", "localhost", 0)


def has_v6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")
def above() -> Certified:
    return authority()


def context(above: Certified, tmp_path: Path, *, server: bool, own: bool = True) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    found.load_verify_locations(cadata=above.pem)
    if own:
        path = tmp_path / f"{'server' if server else 'client'}.pem"
        found.load_cert_chain(above.issue("worker", ["localhost", "127.0.0.1"]).write_pem(path))
    return found


@pytest.fixture
def tls(above: Certified, tmp_path: Path) -> Tls:
    served = context(above, tmp_path, server=True)
    return Tls(served, served)


# -- listeners


def test_every_listener_serves_the_same(above: Certified, tmp_path: Path, tls: Tls) -> None:
    listeners = (HTTP, HTTPS, HTTP, *([ListenerAddress("http", "::1", 0)] if has_v6() else []))
    with serving(RestSettings(listeners), tls=tls, client_tls=context(above, tmp_path, server=False)) as client:
        assert [urlsplit(url).scheme for url in client.server.urls][:3] == ["http", "https", "http"]
        assert len({urlsplit(url).port for url in client.server.urls}) == len(listeners)
        client.ask("PUT", "/connectors/c/config", {})
        for url in client.server.urls:
            assert client.ask("GET", "/connectors", url=url).json == ["c"]
        created = client.ask("PUT", "/connectors/d/config", {}, url=client.server.urls[1])
        assert created.headers["location"] == f"{client.server.urls[1]}/connectors/d"


def test_an_empty_host_is_every_interface() -> None:
    with serving(RestSettings((ListenerAddress("http", "", 0),))) as client:
        port = urlsplit(client.url).port
        for host in ("127.0.0.1", *(["[::1]"] if has_v6() else [])):
            assert client.ask("HEAD", "/", url=f"http://{host}:{port}").status == 200
        assert urlsplit(client.server.advertised_url).hostname not in (None, "")


def test_a_client_must_show_its_certificate(above: Certified, tmp_path: Path, tls: Tls) -> None:
    assert tls.public is not None
    tls.public.verify_mode = ssl.CERT_REQUIRED
    with serving(RestSettings((HTTPS,)), tls=tls, client_tls=context(above, tmp_path, server=False)) as client:
        assert client.get("/").status == 200
        stranger = Client(client.url, client.herder, client.server, context(above, tmp_path, server=False, own=False))
        with pytest.raises((OSError, http.client.HTTPException)):
            stranger.get("/")


def test_an_address_that_is_taken_is_named_and_the_others_are_let_go() -> None:
    with serving() as client:
        taken = ListenerAddress("http", "127.0.0.1", urlsplit(client.url).port or 0)
        second = RestServer(RestApi(FakeHerder(), RestSettings((HTTP, taken)), SYSTEM))
        with pytest.raises(OSError, match=rf"cannot listen at {client.url}: Address already in use") as refused:
            second.start()
        way_out = (
            "end the process that has the address, or write another address in listeners, or in --listen for a resource"
        )
        assert (str(refused.value).partition("; ")[2], id_of(refused.value, "")) == (way_out, "TW-REST-01")
        second.stop()
        third = RestServer(RestApi(FakeHerder(), RestSettings((HTTP,), admin_listeners=(taken,)), SYSTEM))
        with pytest.raises(OSError, match=r"cannot listen at .*; .* write another address in admin\.listeners"):
            third.start()


def test_https_needs_a_certificate() -> None:
    with pytest.raises(ValueError, match=r"ssl\.keystore\.location"):
        RestServer(RestApi(FakeHerder(), RestSettings((HTTPS,)), SYSTEM)).start()


# -- administrators


def test_the_part_for_administrators_is_on_every_listener() -> None:
    with serving() as client:
        assert client.get("/admin/loggers").status == 200
        assert client.server.admin_urls == []


def test_the_part_for_administrators_is_turned_off() -> None:
    with serving(RestSettings(LOOPBACK, admin_listeners=())) as client:
        assert client.get("/admin/loggers").status == 404


def test_the_part_for_administrators_has_listeners_of_its_own() -> None:
    with serving(RestSettings(LOOPBACK, admin_listeners=(HTTP,)), users=Users({"u": "p"})) as client:
        (own,) = client.server.admin_urls
        login = {"Authorization": "Basic dTpw"}
        assert client.ask("GET", "/admin/loggers", headers=login).status == 404
        assert client.ask("GET", "/admin/loggers", headers=login, url=own).status == 200
        assert client.ask("GET", "/admin/loggers", url=own).status == 401
        assert client.ask("GET", "/connectors", headers=login, url=own).status == 404


# -- what is advertised


@pytest.mark.parametrize(
    ("listeners", "advertised", "url"),
    [
        (
            (ListenerAddress("http", "0.0.0.0", 1),),
            {"advertised_host": "connect", "advertised_port": 8083},
            "http://connect:8083",
        ),
        ((ListenerAddress("http", "", 1),), {}, "http://10.0.0.1:1"),
        ((ListenerAddress("https", "a", 1), ListenerAddress("http", "b", 2)), {}, "http://b:2"),
        (
            (ListenerAddress("https", "a", 1), ListenerAddress("http", "b", 2)),
            {"advertised_listener": "https"},
            "https://a:1",
        ),
        ((ListenerAddress("https", "a", 1),), {}, "https://a:1"),
        ((ListenerAddress("http", "::1", 1),), {"advertised_port": 0}, "http://[::1]:0"),
    ],
)
def test_what_others_call_a_worker_by(
    listeners: tuple[ListenerAddress, ...], advertised: dict[str, Any], url: str
) -> None:
    assert str(RestSettings(**advertised).find_advertised(listeners, "10.0.0.1")) == url


# -- other workers


@pytest.fixture
def leader() -> Iterator[Client]:
    with serving(users=Users({"u": "p"})) as client:
        client.herder.kept["c"] = {"name": "c"}
        yield client


def not_here(url: str) -> FakeHerder:
    def refuse(method: str) -> None:
        raise NotOwnerError("Only the leader does that.", url)

    return FakeHerder(before=refuse)


LOGIN = {"Authorization": "Basic dTpw", "Content-Type": "application/json", "Cookie": "a=b"}


def told(answer: Response) -> tuple[int, object]:
    return answer.status, answer.json if answer.content else None


def test_a_request_is_passed_on(leader: Client) -> None:
    paths = [
        ("POST", "/connectors", {"name": " a/b ", "config": {"k": 1}}),
        ("PUT", "/connectors/d%2Fe/config", {"k": "v"}),
        ("PATCH", "/connectors/c/config", {"k": "v"}),
        ("POST", "/connectors/c/restart?includeTasks=true&onlyFailed=true", None),
        ("POST", "/connectors/c/tasks/0/restart", None),
        ("PUT", "/connectors/c/stop", None),
        ("PATCH", "/connectors/c/offsets", {"offsets": [{"partition": {"a": 1}}]}),
        ("DELETE", "/connectors/c/offsets", None),
        ("DELETE", "/connectors/x", None),
        ("DELETE", "/connectors/c", None),
    ]
    with serving(herder=not_here(leader.url + "/")) as follower:
        statuses = [follower.ask(method, path, body, LOGIN).status for method, path, body in paths]
        assert statuses == [201, 201, 200, 202, 204, 204, 200, 200, 404, 204]
        assert sorted(leader.herder.kept) == ["a/b", "d/e"]
        assert follower.ask("PUT", "/connectors/c/config", {}).status == 401


def test_a_created_connector_is_where_the_client_asked(leader: Client) -> None:
    with serving(herder=not_here(leader.url)) as follower:
        answer = follower.ask("PUT", "/connectors/a%2Fb/config", {"k": "v"}, LOGIN)
        assert answer.headers["location"] == f"{follower.url}/connectors/a%2Fb"


class LaterEachTime(SystemClock):
    """By twenty seconds whenever the herder is asked."""

    def __init__(self, herder: FakeHerder) -> None:
        self._herder = herder

    def monotonic(self) -> float:
        return SYSTEM.monotonic() + 20.0 * len(self._herder.calls)


def test_a_request_goes_over_two_workers_at_most() -> None:
    second = not_here("")
    with ExitStack() as stack:
        far = stack.enter_context(serving(herder=second))
        first = not_here(far.url)
        near = stack.enter_context(serving(herder=first, clock=LaterEachTime(first)))

        def again(method: str) -> None:
            raise NotOwnerError("Not here either.", near.url)

        second.before = again
        answer = near.ask("DELETE", "/connectors/c")
        assert (answer.status, "rebalance" in answer.message) == (409, True)
        # The first worker asks the second worker again after the first failure.
        assert len(far.herder.calls) == 2
        assert len(near.herder.calls) == 4
        assert near.ask("DELETE", "/connectors/c?forward=false").status == 409
        assert len(near.herder.calls) == 5


def test_a_request_waits_until_the_workers_agree_who_leads() -> None:
    second = not_here("")
    with serving(herder=second) as far, serving(herder=not_here(far.url)) as near:
        lost = [near.url]

        def not_yet(method: str) -> None:
            if lost:
                raise NotOwnerError("Not here either.", lost.pop())

        second.before = not_yet
        second.kept["c"] = {}
        assert near.ask("DELETE", "/connectors/c").status == 204
        assert len(near.herder.calls) == 3


def test_a_host_that_is_none_is_passed_on_too(leader: Client) -> None:
    with serving(herder=not_here(leader.url)) as follower:
        answer = follower.ask("DELETE", "/connectors/c?a=%FF&b", headers={**LOGIN, "Host": "["})
        assert answer.status == 204


def test_nobody_may_be_known_to_pass_a_request_on_to() -> None:
    with serving(herder=not_here("")) as client:
        answer = client.ask("DELETE", "/connectors/c")
        assert (answer.status, "rebalance" in answer.message) == (409, True)


def test_the_other_worker_may_be_gone(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as other:
        gone = other.url
    herder = not_here(gone)
    with serving(herder=herder, clock=LaterEachTime(herder)) as client:
        answer = client.ask("PUT", "/connectors/c/config", {"password": "s3cret"})
        assert (answer.status, "Connection refused" in answer.message) == (500, True)
    assert len(herder.calls) == 2
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "failure",
    [OSError(errno.EHOSTUNREACH, "No route to host"), socket.gaierror(socket.EAI_NONAME, "Name or service not known")],
)
def test_a_worker_whose_host_is_gone_is_looked_up_again(failure: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def unreachable(address: tuple[str, int], *more: Any, **named: Any) -> socket.socket:
        if address[0] == "gone":
            raise failure
        return connect(address, *more, **named)

    monkeypatch.setattr(socket, "create_connection", unreachable)
    herder = not_here("http://gone:8083/")
    with serving(herder=herder, clock=LaterEachTime(herder)) as client:
        answer = client.ask("POST", "/connectors/c/restart")
        assert (answer.status, str(failure.strerror) in answer.message) == (500, True)
    assert len(herder.calls) == 2


def test_a_silent_worker_is_looked_up_again_soon() -> None:
    """The system accepts the connection, and the handshake of TLS is never answered."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        herder = not_here(f"https://127.0.0.1:{silent.getsockname()[1]}/")
        forwarder = Forwarder(ssl.create_default_context(), connect_s=0.2)
        with serving(herder=herder, clock=LaterEachTime(herder), forwarder=forwarder) as client:
            answer = client.ask("DELETE", "/connectors/c")
            assert (answer.status, "timed out" in answer.message) == (500, True)
    assert len(herder.calls) == 2


@pytest.mark.parametrize(
    ("begun", "method", "path"),
    [
        (b"", "PUT", "/connectors/c/config"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "PUT", "/connectors/c/config"),
        (b"", "GET", "/connectors/c/offsets"),
    ],
)
def test_a_worker_that_ends_before_its_answer_is_asked_again(begun: bytes, method: str, path: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for sent in (begun, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(sent)

        other = threading.Thread(target=answer, daemon=True)
        other.start()
        herder = not_here(f"http://127.0.0.1:{server.getsockname()[1]}")
        with serving(herder=herder) as client:
            assert client.ask(method, path, {"a": "b"} if method == "PUT" else None).status == 200
        other.join(DEADLINE_S)
    assert len(herder.calls) == 2


@pytest.mark.parametrize(("method", "path"), [("PUT", "/connectors/d/config"), ("POST", "/connectors")])
@pytest.mark.parametrize("failure", [BrokenPipeError(), ConnectionResetError(), ssl.SSLEOFError()])
def test_a_request_that_arrived_in_part_is_sent_again(
    leader: Client, failure: OSError, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other worker closes the connection between the headers and the body."""
    send = http.client.HTTPConnection.send
    failures = [failure]

    def closed(connection: http.client.HTTPConnection, data: Any) -> None:
        send(connection, data)
        if failures and connection.port == urlsplit(leader.url).port:
            raise failures.pop()

    monkeypatch.setattr(http.client.HTTPConnection, "send", closed)
    herder = not_here(leader.url)
    with serving(herder=herder) as follower:
        body = {"a": "b"} if method == "PUT" else {"name": "d", "config": {"a": "b"}}
        assert follower.ask(method, path, body, LOGIN).status == 201
    assert failures == []
    assert len(herder.calls) == 2


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 500),
        (b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\n[1]\n", 409),
        (b'HTTP/1.1 503 No\r\n\r\n{"error_code": 503, "message": "Not yet."}', 503),
        (b"junk\r\n\r\n", 500),
        (b"", 500),
    ],
)
def test_the_other_worker_may_answer_anything(sent: bytes, status: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(sent)

        other = threading.Thread(target=answer)
        other.start()
        with serving(herder=not_here(f"http://127.0.0.1:{server.getsockname()[1]}")) as client:
            found = client.ask("DELETE", "/connectors/c")
            assert found.status == status
            assert found.message
        other.join()


def test_the_other_worker_may_want_tls(above: Certified, tmp_path: Path, tls: Tls) -> None:
    forwarder = Forwarder(context(above, tmp_path, server=False))
    with serving(RestSettings((HTTPS,)), tls=tls) as leader:
        leader.herder.kept["c"] = {}
        with serving(herder=not_here(leader.url), forwarder=forwarder) as client:
            assert client.ask("DELETE", "/connectors/c").status == 204
        with serving(herder=not_here(leader.url)) as client:
            answer = client.ask("DELETE", "/connectors/c")
            assert (answer.status, "certificate" in answer.message) == (500, True)


# -- the end


def test_it_stops_while_clients_are_connected(tls: Tls, caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()
    herder = FakeHerder(before=lambda method: None if method == "connectors" else bool(go_on.wait(DEADLINE_S)) and None)
    answers: list[Response] = []
    with serving(RestSettings((HTTP, HTTPS)), herder=herder, tls=tls) as client:
        parts = [urlsplit(url) for url in client.server.urls]
        idle = [socket.create_connection((part.hostname or "", part.port or 0)) for part in parts for _ in range(3)]
        kept = http.client.HTTPConnection(parts[0].netloc, timeout=DEADLINE_S)
        kept.request("GET", "/connectors")
        assert kept.getresponse().read() == b"[]"
        waiting = threading.Thread(target=lambda: answers.append(client.ask("DELETE", "/connectors/c")))
        waiting.start()
        wait_for(lambda: "delete" in herder.calls, DEADLINE_S, "a request to be under way")
    waiting.join()
    assert (answers[0].status, answers[0].message) == (503, "The worker is stopping.")
    with pytest.raises(ConnectionRefusedError):
        client.get("/connectors")
    kept.close()
    for connection in idle:
        connection.close()
    go_on.set()
    assert not [one for one in threading.enumerate() if one.name == "rest-server"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR and "uvicorn" not in record.name]


def test_a_client_that_had_connected_before_the_end_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its request arrives once the listener is closed."""
    for name in ("_FIRST_S", "_GRACE_S"):
        monkeypatch.setattr(listening, name, DEADLINE_S)
    with serving() as client:
        (server,) = client.server._serving.servers
        silent, early = (http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=DEADLINE_S) for _ in "ab")
        for connection in (silent, early):
            connection.connect()
        wait_for(lambda: len(server.server_state.connections) == 2, DEADLINE_S, "both are connected")
        ending = threading.Thread(target=client.server.stop)
        ending.start()
        wait_for(lambda: refuses(client.url), DEADLINE_S, "the listener is closed")
        early.request("PUT", "/connectors/c/config", b"{}", {"Content-Type": "application/json"})
        assert early.getresponse().status == 201
        for connection in (silent, early):
            connection.close()
        ending.join(DEADLINE_S)
        assert not ending.is_alive()
    assert list(client.herder.kept) == ["c"]


def refuses(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0)).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.parametrize("listener", [HTTP, HTTPS])
def test_a_client_that_the_system_has_accepted_for_the_server_is_answered(
    listener: ListenerAddress, above: Certified, tmp_path: Path, tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client connects after the last look of the server's event loop, and before the close of the listener."""
    stands, goes_on = threading.Event(), threading.Event()
    on_tick = listening.BoundServer.on_tick

    async def stand_still(self: listening.BoundServer, counter: int) -> bool:
        ends = await on_tick(self, counter)
        if ends:
            stands.set()
            assert goes_on.wait(DEADLINE_S)
        return ends

    for name in ("_FIRST_S", "_GRACE_S"):
        monkeypatch.setattr(listening, name, DEADLINE_S)
    monkeypatch.setattr(listening.BoundServer, "on_tick", stand_still)
    trusts = context(above, tmp_path, server=False)
    with serving(RestSettings((listener,)), tls=tls, client_tls=trusts) as client:
        ending = threading.Thread(target=client.server.stop)
        ending.start()
        assert stands.wait(DEADLINE_S)
        held = socket.create_connection((urlsplit(client.url).hostname or "", urlsplit(client.url).port or 0))
        goes_on.set()
        connection = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=DEADLINE_S)
        connection.sock = trusts.wrap_socket(held, server_hostname="localhost") if listener.tls else held
        connection.request("GET", "/connectors")
        assert connection.getresponse().read() == b"[]"
        connection.close()
        ending.join(DEADLINE_S)
        assert not ending.is_alive()


def test_a_server_that_never_started_is_stopped() -> None:
    RestServer(RestApi(FakeHerder(), RestSettings(LOOPBACK), SYSTEM)).stop()


def test_its_threads_end_with_it() -> None:
    before = {one.name for one in threading.enumerate()}
    with serving() as client:
        client.get("/connectors")
        client.get("/health")
    wait_for(
        lambda: not {one.name for one in threading.enumerate() if one.name.startswith("rest-")} - before,
        DEADLINE_S,
        "the threads of the server to end",
    )


def test_a_server_without_requests_rarely_wakes_up_and_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_DATE_S", 3600.0)
    turns: list[int] = []
    on_tick = listening.BoundServer.on_tick

    async def counted(self: listening.BoundServer, counter: int) -> bool:
        turns.append(counter)
        return await on_tick(self, counter)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Answers nothing."""

    monkeypatch.setattr(listening.BoundServer, "on_tick", counted)
    bound = listening.bind([ListenerAddress("http", "127.0.0.1", 0)])
    thread = listening.ServerThread("server")
    assert thread.begin(listening.servers(bound, app, None, listening.Limits()))
    wait_for(lambda: bool(turns), 60.0, "the first turn")
    ending = threading.Thread(target=thread.end, daemon=True)
    ending.start()
    ending.join(60.0)
    assert not ending.is_alive()
    assert len(turns) == 2
