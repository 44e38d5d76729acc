"""What HTTP asks of every resource: methods, content, paths, limits, and answers to what is none."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit

import pytest

from harness.wait import wait_for
from tests.unit.connect.fake_herder import FakeHerder
from tests.unit.connect.serving import DEADLINE_S, GETS, LOOPBACK, Client, serving
from twinlog.clock import SystemClock
from twinlog.connect.rest.serving import Limits
from twinlog.errors import RefusedError, RequestError
from twinlog.settings.worker import HeaderSettings, RestSettings


@pytest.mark.parametrize("path", GETS)
def test_head_is_get_without_the_body(client: Client, path: str) -> None:
    got, head = client.get(path), client.ask("HEAD", path)
    assert head.content == b""
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}
    assert (head.status, int(head.headers["content-length"])) == (got.status, len(got.content))


@pytest.mark.parametrize("path", ["/connectors/", "/connectors/c/", "/health/", "/connectors/c/status//"])
def test_a_slash_at_the_end_does_not_count(client: Client, path: str) -> None:
    assert client.get(path).content == client.get(path.rstrip("/")).content
    assert client.get(path).status == 200


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/", "GET,HEAD,OPTIONS"),
        ("/connectors", "GET,HEAD,OPTIONS,POST"),
        ("/connectors/c", "DELETE,GET,HEAD,OPTIONS"),
        ("/connectors/c/config", "GET,HEAD,OPTIONS,PATCH,PUT"),
        ("/connectors/c/pause", "OPTIONS,PUT"),
        ("/connectors/c/fence", "OPTIONS,PUT"),
    ],
)
def test_options_names_the_methods_and_others_are_refused(client: Client, path: str, allow: str) -> None:
    options, refused = client.ask("OPTIONS", path), client.ask("TRACE", path)
    assert options.status == 200
    assert sorted(options.headers["allow"].split(",")) == allow.split(",")
    assert (refused.status, refused.message) == (405, "HTTP 405 Method Not Allowed")
    assert refused.headers["allow"] == options.headers["allow"]


@pytest.mark.parametrize(
    "name", ["a/b", "a b", "a->b", "%", "a%2Fb", "ü 雪 🙂", "+", "a;b=c", "..", "a?b", "#", "\u202e"]
)
def test_names_are_decoded_once(client: Client, name: str) -> None:
    path = f"/connectors/{quote(name, safe='')}"
    created = client.ask("PUT", f"{path}/config", {"k": name})
    assert (created.status, created.json["name"]) == (201, name)
    assert client.get(created.headers["location"].removeprefix(client.url)).json["name"] == name
    assert client.get(f"{path}/config").json == {"k": name, "name": name}
    assert name in client.get("/connectors").json
    assert client.ask("DELETE", path).status == 204


@pytest.mark.parametrize(
    "path", ["/connectors/%", "/connectors/%zz", "/connectors/c/config%2", "/connectors/%E4%F6", "/connectors/%00"]
)
def test_a_path_that_cannot_be_decoded(client: Client, path: str) -> None:
    assert client.get(path).status == 400


def test_a_proxy_may_send_the_whole_address(client: Client) -> None:
    assert client.get(f"{client.url}/connectors").json == ["c"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("APPLICATION/JSON; charset=utf-8", 201),
        ("*/*", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/hal+json", 415),
        ("nonsense", 415),
        (None, 415),
    ],
)
def test_a_body_must_be_json(client: Client, kind: str | None, status: int) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = client.ask("POST", "/connectors", b'{"name": "n", "config": {}}', headers)
    assert answer.status == status
    assert status == 201 or answer.message == "HTTP 415 Unsupported Media Type"


def test_where_no_body_is_read_none_is_looked_at(client: Client) -> None:
    assert client.ask("PUT", "/connectors/c/pause", b"junk", {}).status == 202
    assert client.ask("PUT", "/connectors/c/pause", b"junk", {"Content-Type": "application/json"}).status == 202
    assert client.ask("PUT", "/connectors/c/pause", b"", {"Content-Type": "text/plain"}).status == 415


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("text/html, application/xml;q=0.9, */*;q=0.8", 200),
        ("application/*", 200),
        ("text/html", 406),
        ("nonsense", 406),
    ],
)
def test_an_answer_is_json(client: Client, accept: str, status: int) -> None:
    assert client.get("/connectors", Accept=accept).status == status


class Then(SystemClock):
    wall = staticmethod(lambda: 1_700_000_000.0)


def test_every_answer_has_the_headers_that_are_wanted() -> None:
    rules = (
        HeaderSettings("add", "X-A", "1"),
        HeaderSettings("add", "x-a", "2"),
        HeaderSettings("add", "Cache-Control", "public"),
        HeaderSettings("set", "Cache-Control", "no-cache, no-store"),
        HeaderSettings("setDate", "Expires", "60000"),
        HeaderSettings("set", "Content-Type", "x/y"),
    )
    with serving(RestSettings(LOOPBACK, response_headers=rules), clock=Then()) as client:
        for path, status in (("/", 200), ("/nowhere", 404)):
            answer = client.get(path)
            assert answer.status == status
            assert answer.headers["cache-control"] == "no-cache, no-store"
            assert answer.headers["expires"] == "Tue, 14 Nov 2023 22:14:20 GMT"
            assert answer.headers["content-type"] == "application/json"


# -- limits


def test_a_body_has_a_limit() -> None:
    with serving(limits=Limits(body_bytes=1000)) as client:
        body = json.dumps({"k": "v" * 2000}).encode()
        assert client.ask("PUT", "/connectors/c/config", body).status == 413
        chunked = http.client.HTTPConnection(urlsplit(client.url).netloc, timeout=DEADLINE_S)
        headers = {"Content-Type": "application/json"}
        chunked.request("PUT", "/connectors/c/config", iter([body[:500], body[500:]]), headers, encode_chunked=True)
        assert chunked.getresponse().status == 413
        chunked.close()
        assert client.ask("PUT", "/connectors/c/config", {"k": "v" * 900}).status == 201


def test_headers_and_paths_have_a_limit(client: Client) -> None:
    most = Limits().header_bytes
    assert client.get("/connectors", **{"X-Large": "x" * most}).status == 431
    assert client.get("/connectors/" + "x" * (most + 1)).status in (414, 431)
    assert client.get("/connectors", **{"X-Large": "x" * (most - 1000)}).status == 200


BEGUN = (
    b"PUT /connectors/new/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
)
"""A request whose body never ends."""


def raw(client: Client, *parts: bytes, read: bool = True) -> bytes:
    """What the server sends until it hangs up."""
    address = urlsplit(client.url)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=DEADLINE_S) as connection:
        for part in parts:
            connection.sendall(part)
        found = b""
        while read and (more := connection.recv(65536)):
            found += more
        return found


@pytest.mark.parametrize(
    "request_line", [b"no http\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n"]
)
def test_what_is_no_http_is_refused(client: Client, request_line: bytes) -> None:
    answer = raw(client, request_line)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error_code"] == 400


def test_headers_without_an_end_are_refused(client: Client) -> None:
    assert raw(client, b"GET / HTTP/1.1\r\n", b"X: " + b"x" * 300_000).startswith(b"HTTP/1.1 431 ")


def test_a_connection_that_asks_nothing_is_closed() -> None:
    with serving(limits=Limits(idle_s=0.2, body_s=0.2)) as client:
        assert raw(client) == b""
        assert raw(client, b"GET / HTT") == b""
        assert raw(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert raw(client, BEGUN).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_goes_away_leaves_nothing(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    raw(client, BEGUN, read=False)
    assert client.get("/connectors").json == ["c"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_connections_have_a_limit() -> None:
    with serving(limits=Limits(connections=3)) as client:
        address = urlsplit(client.url)
        idle = [socket.create_connection((address.hostname or "", address.port or 0)) for _ in range(10)]
        try:
            assert client.get("/").status == 200
            idle[0].settimeout(DEADLINE_S)
            # The one that was idle longest has made room.
            with pytest.raises(ConnectionError):
                raise ConnectionError if not idle[0].recv(1) else AssertionError
        finally:
            for one in idle:
                one.close()


# -- what goes wrong, and when the herder is slow


def test_a_failure_of_the_worker_names_no_value(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    secret = "s3" + "cret"

    def fail(method: str) -> None:
        raise KeyError(secret)

    client.herder.before = fail
    for method, path, body in (("GET", "/connectors", None), ("PUT", "/connectors/c/config", {"password": secret})):
        answer = client.ask(method, path, body)
        assert answer.status == 500
        assert answer.message.startswith("TW-FAULT-04: ")
        assert "KeyError" in answer.message
    assert secret not in caplog.text + answer.message
    assert caplog.text.count("an unexpected KeyError") == 2


def test_the_herder_decides_the_status(client: Client) -> None:
    def refuse(method: str) -> None:
        raise RequestError(503, "Not yet.")

    client.herder.before = refuse
    answer = client.get("/connectors/c/offsets")
    assert (answer.status, answer.message) == (503, "Not yet.")


def test_a_message_begins_with_the_id_of_its_cause(client: Client) -> None:
    def refuse(method: str) -> None:
        raise RequestError.of(500, RefusedError("cluster worker: User:w lacks WRITE on topic t"))

    client.herder.before = refuse
    answer = client.get("/connectors/c/offsets")
    assert answer.json == {"error_code": 500, "message": "TW-RIGHT-02: cluster worker: User:w lacks WRITE on topic t"}


def test_who_waits_too_long_hears_what_goes_on() -> None:
    go_on = threading.Event()
    herder = FakeHerder(before=lambda method: None if method == "connectors" else bool(go_on.wait(DEADLINE_S)) and None)
    with serving(herder=herder, limits=Limits(request_s=0.2)) as client:
        answer = client.ask("PUT", "/connectors/c/config", {})
        assert (answer.status, answer.message) == (500, "Request timed out. The worker is reading the config topic.")
        # On a busy machine this may take as long, too.
        wait_for(lambda: client.get("/connectors").json == [], DEADLINE_S, "others to be answered meanwhile")
    with serving(herder=herder, limits=Limits(health_s=0.2)) as client:
        health = client.get("/health")
        assert (health.status, health.json["status"]) == (500, "unhealthy")
        assert health.json["message"].startswith("TW-REST-07: Worker did not answer in time")
        assert "reading the config topic" in health.json["message"]
        assert client.get("/connectors").json == []
        go_on.set()


def test_what_comes_while_the_worker_starts_waits_and_keeps_no_thread() -> None:
    herder = FakeHerder(started=False)
    with serving(herder=herder) as client, ThreadPoolExecutor(40) as callers:
        paths = ("/connectors", "/connectors?expand=status", "/connectors/c/offsets", "/connectors/c/status")
        held = [callers.submit(client.get, path) for path in paths * 8]
        created = callers.submit(client.ask, "PUT", "/connectors/c/config", {"a": "b"})
        try:
            for path in ("/", "/health", "/connector-plugins"):
                assert client.get(path).status == 200
            validate = "/connector-plugins/MirrorSourceConnector/config/validate"
            config = {"name": "c", "connector.class": "MirrorSourceConnector"}
            assert client.ask("PUT", validate, config).status == 200
            assert set(herder.calls) == {"server_info", "health", "plugins", "validate"}
            assert not any(one.done() for one in [*held, created])
        finally:
            herder.started = True
        assert created.result(DEADLINE_S).status == 201
        assert {one.result(DEADLINE_S).status for one in held[::4]} == {200}


@pytest.mark.parametrize(("method", "path"), [("GET", "/connectors"), ("PUT", "/connectors/c/config")])
def test_what_waits_for_a_worker_that_stops_before_its_start_may_be_sent_again(method: str, path: str) -> None:
    herder = FakeHerder(started=False)
    with serving(herder=herder) as client, ThreadPoolExecutor(1) as callers:
        held = callers.submit(client.ask, method, path, {"a": "b"} if method == "PUT" else None)
        herder.left = True
        answer = held.result(DEADLINE_S)
    assert (answer.status, answer.message) == (503, "This worker is stopping.")
    assert answer.headers["retry-after"] == "1"
    assert herder.calls == []


def test_changes_that_wait_hold_nothing_else_up() -> None:
    go_on = threading.Event()
    herder = FakeHerder(before=lambda method: bool(method == "put" and go_on.wait(DEADLINE_S)) and None)
    with serving(herder=herder) as client:
        waiting = [
            threading.Thread(target=client.ask, args=("PUT", f"/connectors/c{number}/config", {}))
            for number in range(40)
        ]
        for one in waiting:
            one.start()
        wait_for(lambda: herder.calls.count("put") == 16, DEADLINE_S, "every thread for changes to be busy")
        assert client.get("/connectors").json == []
        assert client.get("/health").status == 200
        go_on.set()
        for one in waiting:
            one.join()
        assert len(client.get("/connectors").json) == 40


# -- the log


def test_each_request_is_a_line(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.ask(
        "PUT",
        "/connectors/a%0Ab/config?x=%22",
        {"password": "s3cret"},
        {"Content-Type": "application/json", "User-Agent": 'a"b'},
    )

    def logged() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.name.endswith("access_log")]
        return [line for line in lines if "a%0Ab" in line]

    wait_for(logged, DEADLINE_S, "the request's line")
    lines = logged()
    assert len(lines) == 1
    assert lines[0].startswith("127.0.0.1 - - [")
    assert '"PUT /connectors/a%0Ab/config?x=%22 HTTP/1.1" 201 ' in lines[0]
    assert '"-" "a\\x22b" ' in lines[0]
    assert lines[0].rsplit(" ", 1)[1].isdecimal()
    assert "s3cret" not in caplog.text


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_headers() -> None:
    with serving() as client:
        parts = urlsplit(client.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
        connection.request("GET", "/")
        connection.getresponse().read()
        (server,) = client.server._serving.servers
        (kept,) = server.server_state.connections
        accepted = kept.transport.get_extra_info("socket")  # type: ignore[union-attr]
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()
