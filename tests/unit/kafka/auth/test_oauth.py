"""Tokens are obtained, kept while they are good, and replaced in time; statements about who asks are signed."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from kafka.future import Future

from harness.ports import claim_port, release_port
from harness.virtual.clock import VirtualClock
from twinlog.clock import SYSTEM
from twinlog.kafka.auth import oauth
from twinlog.kafka.auth.oauth import TokenSource, token_source
from twinlog.kafka.auth.refusal import LoginRefusedError, NoTokenError
from twinlog.kafka.auth.token_server import ask_server, assertion, body, headers
from twinlog.kafka.net.loop import Loop
from twinlog.settings.oauth import AssertionSettings, TokenSettings

NOW = 1_700_000_000.5


def packed(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def unpacked(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def token(lifetime_s: float, now: float | None = None) -> str:
    ends = lifetime_s + (time.time() if now is None else now)
    return f"{packed({'alg': 'none'})}.{packed({'sub': 'u', 'exp': ends})}."


def test_an_unsigned_token_has_the_configured_claims() -> None:
    source = TokenSource(TokenSettings(claims='{"sub": "u", "scope": ["a"]}', lifetime_s=60, extensions=(("x", "1"),)))
    source.renew_token()
    header, claims, signature = source.token().split(".")
    assert (unpacked(header), signature) == ({"alg": "none"}, "")
    found = unpacked(claims)
    assert found.pop("exp") == pytest.approx(found.pop("iat") + 60)
    assert found == {"sub": "u", "scope": ["a"]}
    assert source.extensions() == {"x": "1"}


def test_a_token_is_kept_and_shared_while_it_is_good(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(3600))
    settings = TokenSettings(file=str(file))
    source = token_source(settings, SYSTEM)
    assert token_source(TokenSettings(file=str(file)), SYSTEM) is source
    assert token_source(settings, VirtualClock()) is not source
    source.renew_token()
    first = source.token()
    file.write_text(token(7200))
    source.renew_token()
    assert source.token() == first


def test_a_token_that_is_still_good_serves_when_no_other_can_be_had(tmp_path: Path) -> None:
    clock = VirtualClock()
    file = tmp_path / "token"
    file.write_text(token(4000, clock.wall()))
    # To be renewed after 2,000 s.
    source = TokenSource(TokenSettings(file=str(file), refresh_factor=0.5, refresh_jitter=0.0), clock)
    source.renew_token()
    first = source.token()
    file.unlink()
    clock.sleep(2500)
    source.renew_token()
    assert source.token() == first
    clock.sleep(2000)
    with pytest.raises(NoTokenError, match="cannot be read"):
        source.renew_token()
    file.write_text(token(10_000, clock.wall()))
    source.renew_token()
    assert source.token() != first


def test_a_token_server_that_refuses_connections_is_asked_again_until_its_time_is_over() -> None:
    clock, tries = VirtualClock(), 0

    def failed(_: NoTokenError) -> None:
        nonlocal tries
        tries += 1

    port = claim_port()
    try:
        settings = TokenSettings(url=f"http://127.0.0.1:{port}/t", retry_backoff_ms=1_000, retry_for_ms=10_000)
        began = clock.monotonic()
        with pytest.raises(NoTokenError, match="does not answer"):
            ask_server(settings, clock, failed)
    finally:
        release_port(port)
    # After 1, 2, 4 seconds, and what is left of ten.
    assert (tries, clock.monotonic() - began) == (5, 10.0)


def test_a_token_server_that_hangs_holds_up_no_login_for_ever() -> None:
    loop, before = Loop(), set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://me:hidden@127.0.0.1:{listening.getsockname()[1]}/token"
        source = TokenSource(TokenSettings(url=url, client_id="a", client_secret="b", read_timeout_ms=1000))

        async def login() -> str:
            with pytest.raises(NoTokenError) as raised:
                await source.prepare(loop.net, time.monotonic() + 0.1)
            return raised.value.sentence

        for _ in range(3):
            outcome = loop.run(login)
            assert outcome == f"the token server {url.replace('me:hidden@', '')} has not answered in time"
        assert [thread.name for thread in threading.enumerate() if thread not in before] == ["token"]
    loop.close()


def test_logins_go_on_after_one_for_which_no_thread_could_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(token(60))
    source, loop = TokenSource(TokenSettings(file=str(file))), Loop()

    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def login() -> None:
        await source.prepare(loop.net, time.monotonic() + 10)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(NoTokenError, match="can't start new thread"):
            loop.run(login)
    loop.run(login)
    assert source.token()
    loop.close()


@pytest.mark.parametrize("good", [True, False])
def test_without_a_thread_a_valid_old_token_is_used_and_no_login_waits(
    monkeypatch: pytest.MonkeyPatch, *, good: bool
) -> None:
    source, loop = TokenSource(TokenSettings(file="/nowhere")), Loop()
    now = time.time()
    source._token = oauth.BearerToken("old", now - 2, now + 60 if good else now - 1)
    others: list[Any] = []

    async def login(what: str) -> str:
        try:
            await source.prepare(loop.net, time.monotonic() + 50)
        except NoTokenError as error:
            return f"{what}: {error.sentence}"
        return f"{what}: {source.token()}"

    def fail(_: object) -> None:
        # Another login comes just now.
        other = Future()
        with source._lock:
            source._waiting.append((loop.net, other))
        others.append(other)
        raise RuntimeError("can't start new thread")

    async def both() -> list[str]:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            outcome = [await login("one")]
        try:
            await others[0]
            outcome.append(f"other: {source.token()}")
        except NoTokenError as error:
            outcome.append(f"other: {error.sentence}")
        return outcome

    expected = "old" if good else "no token can be fetched: can't start new thread"
    assert loop.run(both) == [f"one: {expected}", f"other: {expected}"]
    assert not source._waiting
    loop.close()


def test_a_login_does_not_wait_long_while_its_old_token_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "OLD_TOKEN_S", 0.1)
    loop = Loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/token"
        source = TokenSource(TokenSettings(url=url, client_id="a", client_secret="b", read_timeout_ms=1000))
        now = time.time()
        source._token = oauth.BearerToken("old", now - 1, now + 60)
        began = time.monotonic()
        loop.run(source.prepare, loop.net, began + 30)
        assert time.monotonic() - began < 30
        assert source.token() == "old"
        assert "old" not in repr(source._token)
    loop.close()


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        ("no token", LoginRefusedError, "no JSON web token"),
        ("a.b.c", LoginRefusedError, "no JSON web token"),
        (f"{packed({})}.{packed({'sub': 'u'})}.", LoginRefusedError, "has no time at which it ends"),
        (token(-1), NoTokenError, "has ended already"),
    ],
    ids=["no-token", "no-parts", "endless", "ended"],
)
def test_what_is_no_good_token(tmp_path: Path, content: str, error: type[Exception], words: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(error, match=words):
        TokenSource(TokenSettings(file=str(file))).renew_token()


def pem(key: Any) -> str:
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def test_an_assertion_is_signed_with_an_elliptic_curve() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    settings = AssertionSettings(None, pem(key), "ES256", '{"kid": "7"}', '{"iss": "me"}', with_id=True)
    content, _, signature = assertion(settings, NOW).rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    assert len(raw) == 64
    both = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key.public_key().verify(both, content.encode(), ec.ECDSA(SHA256()))
    header, claims = map(unpacked, content.split("."))
    assert header == {"kid": "7", "alg": "ES256", "typ": "JWT"}
    assert (claims["iss"], claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == ("me", 300, 60)
    assert len(claims["jti"]) == 36


def test_an_assertion_is_signed_with_rsa() -> None:
    key = rsa.generate_private_key(65537, 2048)
    content, _, signature = assertion(AssertionSettings(None, pem(key)), NOW).rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    key.public_key().verify(raw, content.encode(), padding.PKCS1v15(), SHA256())


def test_what_a_token_server_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.write_text("a.b.c")
    ready = AssertionSettings(str(file))
    secret = TokenSettings(url="http://id", client_id="a b", client_secret="c:d", scope="x y")
    assert urllib.parse.parse_qs(body(secret, NOW)) == {"grant_type": ["client_credentials"], "scope": ["x y"]}
    assert _login(secret) == "a b:c:d"
    assert _login(replace(secret, encode_login=True)) == "a+b:c%3Ad"
    signed = replace(secret, assertion=ready, scope=None)
    assert urllib.parse.parse_qs(body(signed, NOW)) == {
        "grant_type": ["client_credentials"],
        "client_assertion_type": ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"],
        "client_assertion": ["a.b.c"],
        "client_id": ["a b"],
    }
    assert "Authorization" not in headers(signed)
    assert urllib.parse.parse_qs(body(replace(signed, grant="jwt_bearer"), NOW)) == {
        "grant_type": ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
        "assertion": ["a.b.c"],
    }


def test_what_a_token_server_is_sent_for_users_and_refresh_tokens(tmp_path: Path) -> None:
    file = tmp_path / "refresh"
    file.write_text("again\n")
    user = TokenSettings(url="http://id", grant="password", client_id="m", username="u", password="p&", audience="k")
    fields = {"grant_type": ["password"], "username": ["u"], "password": ["p&"], "audience": ["k"]}
    assert urllib.parse.parse_qs(body(user, NOW)) == fields
    assert _login(user) == "m:"
    again = TokenSettings(url="http://id", grant="refresh_token", client_id="m", refresh_token_file=str(file))
    fields = {"grant_type": ["refresh_token"], "refresh_token": ["again"], "client_id": ["m"]}
    assert urllib.parse.parse_qs(body(again, NOW)) == fields
    assert "Authorization" not in headers(again)
    assert _login(replace(again, client_secret="s")) == "m:s"
    file.unlink()
    with pytest.raises(NoTokenError, match="refresh cannot be read"):
        body(again, NOW)
    special = TokenSettings(url="http://id", client_id="m", client_secret="s", grant_type="special")
    assert urllib.parse.parse_qs(body(special, NOW)) == {"grant_type": ["special"]}


class AnswersWith(BaseHTTPRequestHandler):
    """A token server that gives everybody the same."""

    answer = ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.answer.encode())

    def log_request(self, *_: object) -> None:
        """Nobody reads it."""


def answered(answer: str, settings: TokenSettings) -> oauth.BearerToken:
    """The token that a server's answer makes."""
    handler = type("Answers", (AnswersWith,), {"answer": answer})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            source = TokenSource(replace(settings, url=f"http://127.0.0.1:{server.server_port}/t"))
            source.renew_token()
        finally:
            server.shutdown()
    assert source._token is not None
    return source._token


def test_a_token_that_is_opaque_ends_when_its_server_says_so() -> None:
    login = TokenSettings(client_id="a", client_secret="b", may_be_opaque=True, retry_for_ms=0)
    now = time.time()
    found = answered('{"access_token": "opaque", "expires_in": 600}', login)
    assert found.text == "opaque"
    assert now + 600 <= found.ends_at <= time.time() + 600
    assert answered('{"access_token": "opaque", "expires_in": 600}', replace(login, longest_s=60)).ends_at < now + 590
    with pytest.raises(LoginRefusedError, match="does not report when its token ends"):
        answered('{"access_token": "opaque"}', login)
    with pytest.raises(LoginRefusedError, match="no JSON web token"):
        answered('{"access_token": "opaque", "expires_in": 600}', replace(login, may_be_opaque=False))


def test_a_file_with_an_opaque_token_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    source = TokenSource(TokenSettings(file=str(file), may_be_opaque=True))
    source.renew_token()
    assert source.token() == "one"
    assert source._token is not None
    assert source._token.renew_at < time.time() + 75
    ready = TokenSource(TokenSettings(text="given", may_be_opaque=True))
    ready.renew_token()
    assert ready.token() == "given"


def _login(settings: TokenSettings) -> str:
    return base64.b64decode(headers(settings)["Authorization"].removeprefix("Basic ")).decode()


def test_a_ready_assertion_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    settings = AssertionSettings(str(file))
    for content in ("one", "two"):
        file.write_text(content + "\n")
        assert assertion(settings, NOW) == content
    file.unlink()
    with pytest.raises(NoTokenError, match="assertion"):
        assertion(settings, NOW)
