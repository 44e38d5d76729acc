"""Whatever a client sends to whatever route, it gets an answer that says whose mistake it was, and never a 500."""

from __future__ import annotations

import http.client
import json
import string
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.connect.fake_herder import FakeHerder
from tests.unit.connect.serving import DEADLINE_S, Client, kept_levels, serving
from twinlog.config.text.values import ValueRefusedError, parse_header_rules, parse_listener
from twinlog.connect.rest.bodies import config_map, parse
from twinlog.connect.rest.serving import Limits
from twinlog.connect.rest.users import credentials
from twinlog.errors import RequestError

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
ROUTES = [
    "/",
    "/health",
    "/connectors",
    "/connectors/{}",
    "/connectors/{}/config",
    "/connectors/{}/status",
    "/connectors/{}/tasks",
    "/connectors/{}/tasks-config",
    "/connectors/{}/tasks/{}/status",
    "/connectors/{}/tasks/{}/restart",
    "/connectors/{}/restart",
    "/connectors/{}/pause",
    "/connectors/{}/resume",
    "/connectors/{}/stop",
    "/connectors/{}/topics",
    "/connectors/{}/topics/reset",
    "/connectors/{}/offsets",
    "/connectors/{}/fence",
    "/connector-plugins",
    "/connector-plugins/{}/config",
    "/connector-plugins/{}/config/validate",
    "/admin/loggers",
    "/admin/loggers/{}",
]
TAKE_BODIES = [
    ("POST", "/connectors"),
    ("PUT", "/connectors/{}/config"),
    ("PATCH", "/connectors/{}/config"),
    ("PATCH", "/connectors/{}/offsets"),
    ("PUT", "/connector-plugins/{}/config/validate"),
    ("PUT", "/admin/loggers/{}"),
]
LIMIT = 20_000
MANY = 5 * settings().max_examples

names = st.one_of(
    st.sampled_from(["c", "a->b", "a/b", "..", "", " ", "%", "root", "0", "MirrorSourceConnector"]),
    st.text(max_size=20),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=12,
)
shaped = st.one_of(
    values,
    st.fixed_dictionaries({"name": values, "config": values, "initial_state": values}),
    st.fixed_dictionaries({"name": names, "config": st.dictionaries(names, scalars, max_size=4)}),
    st.dictionaries(names, scalars, max_size=5),
    st.fixed_dictionaries(
        {"offsets": st.lists(st.fixed_dictionaries({"partition": values, "offset": values}), max_size=3)}
    ),
    st.fixed_dictionaries({"level": st.one_of(st.sampled_from(["DEBUG", "warn", "x"]), values)}),
)
written = shaped.map(lambda value: json.dumps(value).encode())
# Of all pairs more than half are refused for their method, and one in thirty has its body read.
asked = st.one_of(st.sampled_from(TAKE_BODIES), st.tuples(st.sampled_from(METHODS), st.sampled_from(ROUTES)))
bodies = st.one_of(
    st.none(),
    written,
    st.builds(lambda body, at: body[:at], written, st.integers(0, 100)),
    st.binary(max_size=200),
    st.sampled_from(
        [b"[" * 5000, b'{"a":' * 5000, b'"' + b"x" * LIMIT * 2 + b'"', b"9" * 5000, b"\xef\xbb\xbf{}", b"{}x"]
    ),
)
queries = st.one_of(
    st.just(""),
    st.dictionaries(
        st.sampled_from(["expand", "forward", "includeTasks", "onlyFailed", "connectorsOnly", "scope", "version"]),
        st.one_of(st.sampled_from(["true", "status", "info", "cluster", ""]), st.text(max_size=8)),
        max_size=3,
    ).map(lambda pairs: "?" + "&".join(f"{key}={quote(value)}" for key, value in pairs.items())),
    st.text(string.printable.strip(), max_size=12).map(lambda text: "?" + text.replace("#", "")),
)
kinds = st.sampled_from([None, "application/json", "application/json", "application/json", "text/plain", ";"])


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with kept_levels(), serving(limits=Limits(body_bytes=LIMIT)) as client:
        yield client


@settings(max_examples=MANY, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    asked=asked,
    places=st.tuples(names, names),
    query=queries,
    body=bodies,
    kind=kinds,
)
def test_every_request_is_answered(
    client: Client,
    asked: tuple[str, str],
    places: tuple[str, str],
    query: str,
    body: bytes | None,
    kind: str | None,
) -> None:
    client.herder.__dict__.update(FakeHerder().__dict__)
    client.herder.kept["c"] = {"name": "c"}
    method, route = asked
    path = route.format(*(quote(place, safe="", errors="replace") for place in places)) + query
    answer = client.ask(method, path, body, {} if kind is None else {"Content-Type": kind})
    assert 200 <= answer.status < 500
    if answer.status >= 400 and method != "HEAD":
        assert answer.message
    elif answer.content and method != "OPTIONS":
        answer.json  # noqa: B018 - it is JSON
    assert client.ask("HEAD", "/").status == 200


@settings(max_examples=200)
@given(target=st.binary(min_size=1, max_size=60), more=st.binary(max_size=60))
def test_every_byte_is_answered_or_refused(client: Client, target: bytes, more: bytes) -> None:
    address = urlsplit(client.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=DEADLINE_S)
    try:
        connection.connect()
        connection.sock.sendall(
            b"GET /" + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + more + b"\r\n\r\n"
        )
        while found := connection.sock.recv(65536):
            assert not found.startswith(b"HTTP/1.1 5")
    finally:
        connection.close()
    assert client.ask("HEAD", "/").status == 200


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.one_of(st.none(), st.booleans(), st.integers())
    )
)
def test_a_map_of_scalars_keeps_its_keys_and_becomes_text(written: dict[str, object]) -> None:
    found = config_map(parse(json.dumps(written).encode()))
    assert {key: value if value is None else json.loads(value) for key, value in found.items()} == written


@given(st.binary())
def test_bytes_are_parsed_or_refused(body: bytes) -> None:
    try:
        parse(body)
        status = 400
    except RequestError as error:
        status = error.status
    assert status == 400


@given(st.text())
def test_texts_are_rules_listeners_and_logins_or_are_not(text: str) -> None:
    for read in (parse_header_rules, parse_listener):
        message = "read"
        try:
            read(text)
        except ValueRefusedError as error:
            message = str(error)
        assert message
    credentials(text)
