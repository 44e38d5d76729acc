"""Every route of each kind of console by drawn requests: never a stack, never a password, no change but by a form."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import NoReturn
from urllib.parse import quote

import pytest
from hypothesis import settings

from tests.unit.ui.browser import Answer, Browser
from tests.unit.ui.consoles import PASSWORD_FIELDS, WatchedConsole, encoded
from tests.unit.ui.login.test_security import HOSTILE, names_of
from twinlog.ui.guards import HEADERS

FORM = "application/x-www-form-urlencoded"
METHODS = ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "x")
DRAWS = settings().max_examples // 6
"""Further requests by GET for each route: 4 in `make test`, 16 in `make draws`."""

FORMS = settings().max_examples // 4
"""Drawn forms for each route: 6 in `make test`, 25 in `make draws`."""

MOST_MISTAKES = 16
"""Drawn changes of a request, whose good values are some fifty."""

MARK = "hunter2"
PASSWORDS = tuple(f"{MARK}{end}" for end in ("", '"', "\\", "\n", "\0", "é", "${env:HOME}", "'; x", "\u2028"))

WRONG = (
    *HOSTILE,
    *("", " ", "\0", "-1", "0", "1e9", "0x10", "NaN", "9" * 9, "9" * 18, str((1 << 63) - 1), "9" * 400, "٣", "²"),
    *("1900-01-01", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2026-02-30"),
    *("[", "]", "(a+)+$", ".*", "a|b", ".", "..", "x:y", "topics:", "groups:a->b", "a->b->c", "->"),
    *("/", "//x", "%00", "%", "&", "=", ";", "#", "?", "+", "é" * 100, "a" * 3000, "-----BEGIN", "${env:HOME}"),
    *("east-1:99999", "east", "[::1]:x", "east:1,,west:2", "TW-GAP-01", "null", "true", "{}", "yes", "token"),
)

DRAWN_HEADERS: Mapping[str, tuple[str, ...]] = {
    "accept": ("text/html", "application/json", "*/*", "", "application/json;q=x, text/html", "\xff"),
    "accept_encoding": ("gzip", "identity", "gzip;q=0", "\xff"),
    "authorization": ("Basic", "Basic %%%", "Basic ====", "Basic OjpA", "Bearer x", "\xff"),
    "content_type": (
        "application/json",
        "text/plain",
        "multipart/form-data; boundary=x",
        f"{FORM}; charset=utf-16",
        "",
    ),
    "cookie": (
        *("twinlog-console-8081=x", "a=b; ; =;", "\x7f", 'twinlog-console-8081="x', "=" * 999),
        "__Host-twinlog-console-8081=x",
    ),
    "hx_request": ("true", ""),
    "hx_target": ("div#live", "x"),
    "if_none_match": ("*", '"x"', "W/"),
    "last_event_id": ("1.2", "x", "\xff"),
    "range": ("bytes=0-9", "bytes=9-0,x"),
    "referer": ("http://evil.example/", "x"),
    "x_csrf_token": ("", "x", "\xff"),
    "x_forwarded_host": ("evil.example",),
    "x_http_method_override": ("POST", "DELETE"),
    "x_live": ("1",),
}
BODIES = (b"", b"%zz=&=\xff", b"\xff\xfe", b"&" * 500, b"=" * 500, b"{", b"\0", b"token", b"a=1;b=2", b"%", b"+" * 99)

STACK = re.compile(r'Traceback|File "|\.py\b|\b[A-Z]\w*(?:Error|Exception)\b')
FOREIGN = {"img", "iframe", "object", "embed", "base", "style"}
"""Tags that no page has."""


def no_number(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def check(answer: Answer, asked: object) -> None:
    """The rules for each answer of a console."""
    text = answer.text
    assert answer.status < 500 or answer.status in (502, 503), (asked, text)
    assert not STACK.search(text), (asked, text)
    for name, value in HEADERS:
        assert answer.headers[name.decode()] == value.decode(), asked
    assert "cache-control" in answer.headers, asked
    assert not any(name.startswith("access-control-") for name in answer.headers), asked
    assert not any("\r" in value or "\n" in value for value in answer.headers.values()), asked
    assert "evil.example" not in answer.headers.get("location", "")
    kind = answer.headers.get("content-type", "")
    if kind.startswith("application/json"):
        json.loads(text, parse_constant=no_number)
    elif kind.startswith("text/html"):
        found = names_of(text)
        assert not found.tags & FOREIGN, (asked, text)
        assert not any(name.startswith("on") for _, name in found.attributes), (asked, text)


def drawn_fields(console: WatchedConsole, chance: random.Random) -> list[tuple[str, str]]:
    """Good values for every handler; some fields are wrong, repeated or missing."""
    # Commands and migrations have ids, each for pages of their own.
    fields = [(name, chance.choice(good) if name == "id" else good[0]) for name, good in console.values.items()]
    for _ in range(chance.randrange(MOST_MISTAKES)):
        at = chance.randrange(len(fields))
        name = fields[at][0]
        change = chance.randrange(5)
        if change == 0:
            del fields[at]
        elif change == 1:
            fields[at] = (name, chance.choice(console.values[name]))
        elif change == 2:
            fields.append((name, chance.choice(WRONG)))
        else:
            fields[at] = (name, chance.choice(WRONG))
    return fields


def drawn_headers(chance: random.Random) -> dict[str, str]:
    names = chance.sample(list(DRAWN_HEADERS), chance.randrange(5))
    return {name: chance.choice(DRAWN_HEADERS[name]) for name in names}


def drawn_url(path: str, fields: list[tuple[str, str]], chance: random.Random) -> str:
    """The path with drawn parameters, and the fields as its query."""
    filled = re.sub(r"\{\w+\}", lambda _: quote(chance.choice(WRONG), safe="", errors="replace"), path)
    return f"{filled}?{encoded(fields).decode()}"


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The unexpected errors of readers and pages. A scripted switchover may be asked for steps that it lacks."""
    texts = [record.getMessage() for record in caplog.records]
    return [text for text in texts if "TW-FAULT-04" in text and "SWITCHOVER" not in text]


def test_the_routes_are_those_of_the_console(watched: WatchedConsole) -> None:
    pages = {"/ui/", "/ui/flow", "/ui/topics", "/ui/groups", "/ui/readiness", "/ui/switchover", "/ui/records"}
    assert pages | {"/ui/api/overview", "/ui/api/points", "/ui/events", "/ui/migration/choose"} <= set(watched.paths)
    acting = {"/ui/login", "/ui/logout", "/ui/topic/act", "/ui/switchover/act", "/ui/connector/act"}
    assert acting | {"/ui/migration/look", "/ui/migration/plan", "/ui/migration/run"} <= set(watched.forms)
    assert "/ui/migration/choose" not in watched.forms


def test_only_a_form_changes_anything(
    watched: WatchedConsole, chance: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    """With every method but POST, with and without a session, with the token of the session in each place."""
    inside, outside = watched.log_in(), Browser(watched.app)
    token = watched.token(inside, "/ui/")
    kept = dict(inside.cookies)
    before = watched.effects
    for path in [*watched.paths, "/ui/nothing", "/ui//", "/ui/../", "/ui/api/"]:
        asked = [(method, inside) for method in (*METHODS, *["GET"] * DRAWS)]
        for method, browser in [*asked, ("GET", outside), (chance.choice(METHODS), outside)]:
            browser.cookies = dict(kept) if browser is inside else {}
            fields = [*drawn_fields(watched, chance), ("token", token), ("_method", "POST")]
            headers = {"content_type": FORM, "x_csrf_token": token, **drawn_headers(chance)}
            url = drawn_url(path, fields, chance)
            answer = browser.ask(method, url, b"" if method == "GET" else encoded(fields), **headers)
            check(answer, (method, url, headers))
            assert watched.effects == before, (method, url, headers)
    assert faults(caplog) == []


def test_no_form_gets_a_stack_or_shows_a_password(
    watched: WatchedConsole, chance: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    def send(path: str, fields: list[tuple[str, str]], body: bytes | None = None, **headers: str) -> None:
        browser = watched.log_in()
        token = watched.token(browser, path)
        sent = encoded([*fields, ("token", token)]) if body is None else body
        answer = browser.ask("POST", path, sent, **{"content_type": FORM, **headers})
        check(answer, (path, sent, headers))
        assert MARK not in answer.text, (path, sent)
        assert MARK not in str(answer.headers), (path, sent)

    for path in [*watched.paths, "/ui/nothing"]:
        send(re.sub(r"\{\w+\}", "x", path), [("flow", "x")])
    for path in watched.forms:
        for _ in range(FORMS):
            fields = [
                (name, chance.choice(PASSWORDS) if name in PASSWORD_FIELDS else value)
                for name, value in drawn_fields(watched, chance)
            ]
            send(path, fields, chance.choice(BODIES) if chance.random() < 0.1 else None, **drawn_headers(chance))
    assert MARK not in caplog.text
    assert faults(caplog) == []
    # All that the forms have left behind is shown without a fault, too.
    browser = watched.log_in()
    for path in watched.paths:
        fields = [(name, good[0]) for name, good in watched.values.items()]
        check(browser.get(drawn_url(path, fields, chance)), path)
    assert faults(caplog) == []


def test_a_form_with_good_values_has_its_effect(watched: WatchedConsole) -> None:
    """The forms of the other tests are able to change something: without a mistake each of them does."""
    acting = set()
    for path in watched.forms:
        # A form of a plan has the digest of the newest draft.
        fields = [(name, good[0]) for name, good in watched.values.items()]
        browser = watched.log_in()
        token = watched.token(browser, path)
        before = watched.effects
        answer = browser.post(path, [*fields, ("token", token)])
        check(answer, path)
        if watched.effects != before:
            acting.add(path)
    expected = set()
    if watched.site.settings.actions:
        expected |= {"/ui/topic/act", "/ui/switchover/act", "/ui/connector/act"}
    if watched.migrations is not None and watched.site.settings.actions:
        expected |= {"/ui/migration/look", "/ui/migration/plan", "/ui/migration/run"}
    if watched.locked:
        expected |= {"/ui/login", "/ui/logout"}
    assert expected <= acting
    if not watched.site.settings.actions:
        assert acting == set()
