"""Who may ask a worker: logins, and pages of other origins."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import bcrypt
import pytest

from harness.wait import wait_for
from tests.unit.connect.serving import DEADLINE_S, GETS, LOOPBACK, Client, serving
from twinlog.connect.rest.users import Users
from twinlog.settings.worker import RestSettings


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


USERS = {"health": "health-secret", "hash": bcrypt.hashpw(b"hash-secret", bcrypt.gensalt(4)).decode()}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Client]:
    with serving(users=Users(USERS)) as client:
        yield client


@pytest.mark.parametrize("path", GETS)
def test_every_resource_asks_for_a_login(guarded: Client, path: str) -> None:
    for headers in ({}, basic("health", "wrong"), basic("x", "health-secret"), {"Authorization": "Bearer x"}):
        answer = guarded.ask("GET", path, headers=headers)
        assert (answer.status, answer.content) == (401, b"User cannot access the resource.")
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
    assert guarded.ask("HEAD", path).status == 401
    assert guarded.ask("GET", path, headers=basic("health", "health-secret")).status in (200, 404)
    for _ in range(2):
        assert guarded.ask("GET", path, headers=basic("hash", "hash-secret")).status in (200, 404)
    assert guarded.ask("GET", path, headers=basic("hash", "hash-secreT")).status == 401


def test_who_may_not_read_may_not_write(guarded: Client) -> None:
    assert guarded.ask("PUT", "/connectors/c/config", {}).status == 401
    assert guarded.ask("DELETE", "/connectors/c").status == 401
    assert guarded.ask("PUT", "/connectors/c/pause").status == 401
    assert guarded.ask("OPTIONS", "/connectors").status == 401
    assert guarded.herder.kept == {}


def test_workers_do_not_log_in(guarded: Client) -> None:
    assert guarded.ask("POST", "/connectors/c/tasks", b"[]").status == 400
    assert guarded.ask("PUT", "/connectors/c/fence").status == 400


def test_an_empty_file_lets_everyone_in() -> None:
    with serving(users=Users({})) as client:
        assert client.get("/").status == 200


def test_pages_of_other_origins() -> None:
    settings = RestSettings(LOOPBACK, allow_origin="http://a.example, https://*.b.example", allow_methods="GET,PUT")
    with serving(settings, users=Users({"u": "p"})) as client:
        allowed = client.get("/", Origin="https://x.b.example", **basic("u", "p"))
        assert (allowed.status, allowed.headers["access-control-allow-origin"]) == (200, "https://x.b.example")
        assert allowed.headers["vary"] == "Origin"
        assert allowed.headers["access-control-allow-credentials"] == "true"
        other = client.get("/", Origin="http://c.example", **basic("u", "p"))
        assert (other.status, other.headers.get("access-control-allow-origin")) == (200, None)
        asked = {"Origin": "http://a.example", "Access-Control-Request-Method": "PUT"}
        preflight = client.ask("OPTIONS", "/connectors", headers=asked)
        assert (preflight.status, preflight.headers["access-control-allow-methods"]) == (200, "GET,PUT")
        assert preflight.headers["allow"]
        for more in ({"Access-Control-Request-Method": "DELETE"}, {"Access-Control-Request-Headers": "authorization"}):
            assert client.ask("OPTIONS", "/connectors", headers={**asked, **more}).status == 401
        known = {**asked, "Access-Control-Request-Headers": "content-type, Accept"}
        assert client.ask("OPTIONS", "/connectors", headers=known).status == 200
        assert client.ask("OPTIONS", "/connectors", headers={**asked, "Origin": "http://c"}).status == 401


def test_where_every_origin_is_allowed_none_uses_a_kept_login() -> None:
    with serving(RestSettings(LOOPBACK, allow_origin="*")) as client:
        answer = client.get("/", Origin="http://c.example")
        assert answer.headers["access-control-allow-origin"] == "http://c.example"
        assert "access-control-allow-credentials" not in answer.headers
        assert "access-control-allow-origin" not in client.get("/", Origin="null").headers


def test_the_log_names_who_asked(guarded: Client, caplog: pytest.LogCaptureFixture) -> None:
    guarded.ask("GET", "/", headers=basic("health", "health-secret"))
    wait_for(lambda: "127.0.0.1 - health [" in caplog.text, DEADLINE_S, "the request's line")
    assert "health-secret" not in caplog.text
