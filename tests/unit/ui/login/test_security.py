"""The guards of the console: headers, logins, sessions, forms of other sites, hosts, sizes, and hostile names."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ui.browser import SESSION_COOKIE, Browser
from tests.unit.ui.fakes import HELD, FakeSources, fake_worker, group, rehearsed, snapshot, topic
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.connect.rest.thread_pools import ThreadPool
from twinlog.connect.rest.users import Credentials, Users
from twinlog.errors import RequestError
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.ops.plan.flow_plan import FlowPlan, GroupPlan, Problem, TopicCopyPlan
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.guards import HEADERS, is_loopback
from twinlog.ui.login.login_check import FREE_OF_ADDRESS, FREE_OF_USER, MOST_ENTRIES, LoginCheck, LoginThrottle
from twinlog.ui.login.sessions import SECURE_COOKIE, SessionStore
from twinlog.ui.migration.draft import ClusterAddress, MigrationDraft
from twinlog.ui.migration.migrations import FoundClusters, FoundTopic, Migration, MigrationStore
from twinlog.ui.site import ConsoleSettings
from twinlog.worker.status.report import TopicProgress

PAGES = ("/ui/", "/ui/flow?flow=a-%3Eb", "/ui/topics", "/ui/topic?flow=a-%3Eb&topic=orders", "/ui/nothing")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def log_in(browser: Browser, user: str = "alice", password: str = "wonder", target: str = "/ui/") -> int:
    form = browser.get(f"/ui/login?next={target}")
    fields = {"token": form.token, "user": user, "password": password, "next": target}
    return browser.post("/ui/login", fields).status


@pytest.mark.parametrize("page", [*PAGES, "/ui/login", "/ui/static/0/x", "/ui/events", "/ui/api/overview"])
def test_every_answer_has_the_headers(browser: Browser, page: str) -> None:
    headers = browser.get(page).headers
    for name, value in HEADERS:
        assert headers[name.decode()] == value.decode()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy


def test_without_a_login_only_this_machine_is_served(app: ConsoleApp) -> None:
    assert Browser(app, client="10.0.0.7").get("/ui/").status == 403
    assert Browser(app, host="attacker.example:8081").get("/ui/").status == 403
    assert Browser(app, host="attacker.example").get("/ui/api/overview").status == 403
    for host in ("127.0.0.1:8081", "[::1]:8081", "LOCALHOST", "127.9.9.9"):
        assert Browser(app, host=host).get("/ui/").status == 200, host
    assert Browser(app, client="::ffff:127.0.0.1").get("/ui/").status == 200
    assert not is_loopback("")
    assert not is_loopback("127.0.0.1.attacker.example")


def test_a_page_asks_for_the_login_and_then_shows_itself(locked: ConsoleApp) -> None:
    browser = Browser(locked, host="console.example", client="10.0.0.7")
    asked = browser.get("/ui/topic?flow=a-%3Eb&topic=orders")
    assert asked.status == 303
    assert asked.headers["location"].startswith("/ui/login?next=/ui/topic%3Fflow%3Da-%253Eb")
    form = browser.get(asked.headers["location"])
    fields = {"token": form.token, "user": "alice", "password": "wonder", "next": "/ui/topic?flow=a-%3Eb&topic=orders"}
    answer = browser.post("/ui/login", fields)
    assert (answer.status, answer.headers["location"]) == (303, "/ui/topic?flow=a-%3Eb&topic=orders")
    page = browser.get(answer.headers["location"])
    assert page.status == 200
    assert "Log out alice" in page.text
    assert browser.post("/ui/logout", {"token": page.token}).status == 303
    assert browser.get("/ui/").status == 303


@pytest.mark.parametrize("page", [*PAGES, "/ui/events?live=a-%3Eb", "/ui/api/points?flow=a-%3Eb"])
def test_nothing_is_shown_without_a_login(locked: ConsoleApp, sources: FakeSources, page: str) -> None:
    browser = Browser(locked)
    assert browser.get(page).status in (303, 401)
    assert browser.get(page, accept="application/json").status == 401
    assert browser.get(page, hx_request="true").headers["hx-redirect"].startswith("/ui/login")
    assert browser.get(page, cookie=f"{SESSION_COOKIE}=guessed").status in (303, 401)
    assert browser.post(page, {}).status in (401, 405)
    assert sources.only.opened == 0


def test_a_script_may_log_in_by_its_header(locked: ConsoleApp) -> None:
    browser = Browser(locked)
    good, wrong = "Basic YWxpY2U6d29uZGVy", "Basic YWxpY2U6eA=="
    assert browser.get("/ui/api/overview", authorization=good).status == 200
    assert browser.get("/ui/api/overview", authorization=wrong).status == 401
    assert browser.post("/ui/logout", {}, authorization=good).status == 401
    assert not browser.cookies


def test_the_session_gets_a_new_name_at_the_login(locked: ConsoleApp) -> None:
    browser = Browser(locked, cookies={SESSION_COOKIE: "fixed-by-an-attacker"})
    assert log_in(browser) == 303
    first = browser.cookies[SESSION_COOKIE]
    assert first != "fixed-by-an-attacker"
    assert len(first) > 40
    other = Browser(locked, cookies=dict(browser.cookies))
    assert other.get("/ui/").status == 200


def test_cookies_are_kept_from_scripts_other_sites_and_plain_http(locked: ConsoleApp) -> None:
    browser = Browser(locked, scheme="https")
    form = browser.get("/ui/login")
    fields = {"token": form.token, "user": "alice", "password": "wonder", "next": "/ui/"}
    answer = browser.post("/ui/login", fields, origin="https://localhost:8081")
    cookie = next(one for one in answer.cookies if one.startswith(f"{SECURE_COOKIE}-8081="))
    for part in ("HttpOnly", "SameSite=strict", "Secure", "Path=/;"):
        assert part in cookie, cookie
    assert "Domain" not in cookie
    assert browser.get("/ui/").status == 200


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "/\\evil.example", "https://evil.example", "/ui/\\..", "javascript:x", "/ui/login?next=x", "/x"],
)
def test_the_login_leads_to_no_other_site(locked: ConsoleApp, target: str) -> None:
    browser = Browser(locked)
    form = browser.get("/ui/login")
    fields = {"token": form.token, "user": "alice", "password": "wonder", "next": target}
    assert browser.post("/ui/login", fields).headers["location"] == "/ui/"


def test_wrong_logins_are_slowed_down_by_user_and_address(locked: ConsoleApp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    for number in range(FREE_OF_USER):
        assert log_in(Browser(locked, client=f"10.0.0.{number}"), password="wrong") == 401
    refused = Browser(locked, client="10.0.0.99")
    assert log_in(refused, password="wonder") == 429
    assert log_in(refused, user="bob", password="x") == 401
    lines = [record.getMessage() for record in caplog.records]
    assert 'console: user="alice" address="10.0.0.99" action="login" outcome="refused" status="429"' in lines
    assert not any("wonder" in line or "wrong" in line for line in lines)


def test_an_attacker_elsewhere_slows_no_user_down_at_an_own_address(
    locked: ConsoleApp, sources: FakeSources, clock: VirtualClock
) -> None:
    app = console_app(sources, locked.site.settings, clock)
    own, strange = Browser(app, client="10.0.0.1"), Browser(app, client="10.0.0.2")
    assert log_in(own) == 303
    for number in range(3 * FREE_OF_USER):
        attacker = Browser(app, client=f"10.9.0.{number}")
        assert log_in(attacker, password="wrong") == (401 if number < FREE_OF_USER else 429)
    # All addresses that are strange to a user share a limit, however many there are.
    assert log_in(strange) == 429
    assert log_in(Browser(app, client="10.0.0.1")) == 303
    clock.now += 60
    assert log_in(strange) == 303
    app.close()


def test_wrong_logins_at_an_own_address_are_slowed_down(
    locked: ConsoleApp, sources: FakeSources, clock: VirtualClock
) -> None:
    app = console_app(sources, locked.site.settings, clock)
    assert log_in(Browser(app, client="10.0.0.1")) == 303
    answers = [log_in(Browser(app, client="10.0.0.1"), password="wrong") for _ in range(FREE_OF_USER + 1)]
    assert answers == [*[401] * FREE_OF_USER, 429]
    app.close()


class HashedUsers(Users):
    """A user with a password that is always compared in a thread."""

    def known(self, login: Credentials) -> bool | None:
        return None

    def compare(self, login: Credentials) -> bool:
        return super().known(login) is True


def test_parallel_guesses_are_counted_before_their_passwords_are_compared(clock: VirtualClock) -> None:
    pool = ThreadPool("login", 2)
    check = LoginCheck(HashedUsers({"alice": "wonder"}), pool, clock)

    def statuses(*passwords: str) -> list[int]:
        async def all_at_once() -> list[BaseException | None]:
            logins = (check.check(Credentials("alice", password), "10.0.0.1") for password in passwords)
            return await asyncio.gather(*logins, return_exceptions=True)

        found = asyncio.run(all_at_once())
        return [one.status if isinstance(one, RequestError) else 200 for one in found]

    # Good logins count no longer once they are known to be good.
    for _ in range(3):
        assert statuses(*["wonder"] * FREE_OF_USER) == [200] * FREE_OF_USER
    guesses = statuses(*(f"guess-{number}" for number in range(30)))
    assert Counter(guesses) == {401: FREE_OF_USER, 429: 30 - FREE_OF_USER}
    assert statuses("wonder") == [429]
    clock.now += 2
    assert statuses("wonder") == [200]
    assert statuses("wrong") == [401]
    pool.close()


def test_a_good_login_leaves_the_pause_of_its_address_as_it_was(clock: VirtualClock) -> None:
    throttle = LoginThrottle(clock)
    for number in range(FREE_OF_ADDRESS + 3):
        clock.now += 60
        throttle.count_login(f"user-{number}", "proxy")
    clock.now += 4
    before_s = throttle._wait_s("alice", "proxy")
    assert before_s > 0
    clock.now += 60
    throttle.take_back(throttle.count_login("alice", "proxy"))
    clock.now -= 60
    assert throttle._wait_s("alice", "proxy") == pytest.approx(before_s)


def count_wrong(throttle: LoginThrottle, user: str, address: str) -> None:
    with suppress(RequestError):
        throttle.count_login(user, address)


def test_the_memory_of_wrong_logins_is_bounded(clock: VirtualClock) -> None:
    throttle = LoginThrottle(clock)
    for number in range(2 * MOST_ENTRIES):
        count_wrong(throttle, f"user-{number}" * 50, f"10.0.{number >> 8}.{number & 255}")
    # Users, addresses, and the pairs of both.
    assert len(throttle) == 3 * MOST_ENTRIES
    for number in range(2 * MOST_ENTRIES):
        throttle.take_back(throttle.count_login(f"good-{number}", f"own-{number}"))
    # The pairs of good logins; a good login leaves no count behind.
    assert MOST_ENTRIES <= len(throttle) < 4 * MOST_ENTRIES
    for _ in range(50):
        clock.now += 60
        count_wrong(throttle, "alice", "10.0.0.1")
    assert 59 < throttle._wait_s("alice", "-") <= 60
    clock.now += 60
    assert throttle._wait_s("alice", "-") == 0
    clock.now += 1000
    count_wrong(throttle, "alice", "10.0.0.1")
    assert throttle._wait_s("alice", "-") == 0


def test_two_consoles_of_a_host_keep_their_sessions_and_their_forms(locked: ConsoleApp, sources: FakeSources) -> None:
    """A browser has the same cookies for all ports of a host."""
    neighbour = console_app(sources, ConsoleSettings(Users({"bob": "builder"})))
    mine, other = Browser(locked), Browser(neighbour, host="localhost:9090")
    other.cookies = mine.cookies
    forms = [(browser, browser.get("/ui/login").token) for browser in (mine, other)]
    for (browser, token), (user, password) in zip(forms, [("alice", "wonder"), ("bob", "builder")], strict=True):
        assert browser.post("/ui/login", {"token": token, "user": user, "password": password}).status == 303
    assert "Log out alice" in mine.get("/ui/").text
    page = other.get("/ui/")
    assert "Log out bob" in page.text
    assert other.post("/ui/logout", {"token": page.token}).status == 303
    assert mine.get("/ui/").status == 200
    neighbour.close()


def test_sessions_end_and_are_bounded(clock: VirtualClock) -> None:
    store = SessionStore(clock, idle_s=100, absolute_s=1000, most=10, most_of_user=3)
    first = store.begin("alice")
    clock.now += 90
    assert store.find(first.name) is first
    clock.now += 90
    # A script that keeps a page up to date does not extend the session.
    assert store.find(first.name, uses=False) is first
    clock.now += 20
    assert store.find(first.name) is None
    kept = store.begin("alice")
    for _ in range(11):
        clock.now += 90
        store.find(kept.name)
    clock.now += 90
    assert store.find(kept.name) is None
    mine = [store.begin("alice") for _ in range(5)]
    assert [store.find(one.name) is None for one in mine] == [True, True, False, False, False]
    others = [store.begin(f"user-{number}") for number in range(20)]
    assert len(store) == 10
    assert store.find(others[-1].name) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://localhost:8081.evil.example"},
        {"origin": "http://localhost:8081@evil.example"},
        {"origin": "http://["},
        {"origin": "http://"},
        {"origin": "localhost:8081"},
        {"origin": ""},
    ],
)
def test_a_form_of_another_site_is_refused(locked: ConsoleApp, headers: dict[str, str]) -> None:
    browser = Browser(locked)
    assert log_in(browser) == 303
    token = browser.get("/ui/").token
    assert browser.post("/ui/logout", {"token": token}, **headers).status == 403
    assert browser.get("/ui/").status == 200


def test_a_form_needs_the_token_of_its_session(locked: ConsoleApp) -> None:
    mine, other = Browser(locked), Browser(locked)
    assert log_in(mine) == log_in(other) == 303
    for token in ("", "x", "é", other.get("/ui/").token):
        assert mine.post("/ui/logout", {"token": token}).status == 403
    form = Browser(locked).get("/ui/login")
    # The login form has a token of its own cookie.
    fields = {"token": form.token, "user": "alice", "password": "wonder"}
    assert Browser(locked).post("/ui/login", fields).status == 403


def test_bodies_are_bounded(locked: ConsoleApp) -> None:
    browser = Browser(locked)
    assert browser.post("/ui/login", b"user=" + b"x" * 100_000).status == 413
    assert browser.post("/ui/login", b"a=1&" * 200).status == 400
    assert browser.post("/ui/login", b"\xff\xfe=1").status == 400
    assert browser.post("/ui/login", b"{}", content_type="application/json").status == 415
    assert browser.get("/ui/?x=" + "x" * 10_000).status == 414
    assert browser.get("/ui/", x_large="x" * 40_000).status == 431


PATHS = (
    "/ui/",
    "/ui/flow",
    "/ui/topics",
    "/ui/topic",
    "/ui/topic/confirm",
    "/ui/topic/settings",
    "/ui/groups",
    "/ui/group",
    "/ui/readiness",
    "/ui/switchover",
    "/ui/switchover/confirm",
    "/ui/migration",
    "/ui/migration/choose",
    "/ui/migration/plan",
    "/ui/connectors",
    "/ui/connector",
    "/ui/connector/new",
    "/ui/connector/edit",
    "/ui/connector/offsets",
    "/ui/nothing",
)
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "{{7*7}}{% raw %}${7*7}",
    "javascript:alert(1)",
    "</title><script>x</script>",
    "</textarea><input autofocus onfocus=x>",
    "a\u202egpj.exe\u0000\u0007\ud83d\ude00",
    "x\r\nset-cookie: a=b",
    "`<b>`[x](javascript:alert(1))<i>",
    "../../etc/passwd%00%2e%2e/",
    "&lt;&#x3c;&amp;<!--",
    "' hx-get='/x' onclick='x",
)


class _Names(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add((tag, name))
            if name in ("href", "src", "action", "hx-get"):
                self.links.add(value or "")


class _NamedMigrations(MigrationStore):
    """A single migration, whose clusters have things of this name."""

    def __init__(self, sources: FakeSources, name: str) -> None:
        super().__init__(sources, Path("migrations"))
        draft = MigrationDraft(ClusterAddress("east", "east:1"), ClusterAddress("west", "west:1"), topics=(name,))
        topics = (FoundTopic(TopicName(name), 1, 2, 3, True),)
        found = FoundClusters(topics, 0, (GroupId(name),), 1, (name,), 1, 1)
        copy = TopicCopyPlan(TopicName(name), TopicName(name), 1, 2, 3)
        groups = (GroupPlan(GroupId(name), 1, "stays", name),)
        problems = (Problem("disk", name),)
        east, west = Alias("east"), Alias("west")
        plan = FlowPlan("east->west", east, west, 1.0, copy=(copy,), groups=groups, problems=problems, notes=(name,))
        self._only = Migration("x", draft, found, plan)

    def find(self, migration_id: str) -> Migration:
        return self._only

    def list_migrations(self) -> list[Migration]:
        return [self._only]


def names_of(text: str) -> _Names:
    found = _Names()
    found.feed(text)
    return found


def pages(name: str) -> list[_Names]:
    """The pages of a console in which flows, topics, groups and workers have this name."""
    flow = replace(SETTINGS, connector_name=name, kind="source")
    held = replace(HELD, topic=name, text=name, way_out=name)
    report = replace(
        REPORTED,
        flow=flow.name,
        process=name,
        detail=name,
        last_error=name,
        held=1,
        held_partitions=(held,),
        topics=(TopicProgress(name, 2, 3, trouble=name),),
        missing=1,
        missing_topics=((name, name),),
    )
    sources = FakeSources(flow)
    sources.only.flow = snapshot(report, flow)
    sources.only.topics = [topic(name, 2, detail=name)]
    sources.only.groups = [group(name)]
    sources.only.rehearsal = rehearsed(name)
    sources.only.settings = [(name, name, name)]
    # A URL carries no half characters, so their connector has the name with replacements.
    sources.rest = fake_worker(name.encode("utf-8", "replace").decode(), name)
    app = console_app(sources)
    app.site.migrations = _NamedMigrations(sources, name)
    browser = Browser(app)
    try:
        query = {"flow": flow.name, "topic": name, "group": name, "search": name, "sort": name, "page": name}
        query["name"] = name
        found = []
        for path in PATHS:
            answer = browser.get(f"{path}?{urlencode(query, errors='replace')}")
            assert answer.status in (200, 400, 404), answer.text
            assert "set-cookie: a=b" not in str(answer.headers)
            found.append(names_of(answer.text))
            assert browser.get(f"{path}?{urlencode(query, errors='replace')}", accept="application/json").json
        return found
    finally:
        app.close()


@pytest.fixture(scope="module")
def plain_pages() -> list[_Names]:
    return pages("orders")


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_names_are_text_on_every_page(hostile: str, plain_pages: list[_Names]) -> None:
    """A page with such names has the tags and the attributes of a page with plain names, and its links stay here."""
    for plain, bad in zip(plain_pages, pages(hostile), strict=True):
        assert bad.tags - {"code", "b"} <= plain.tags
        assert {one for one in bad.attributes if one[1] != "class"} <= plain.attributes
        for link in bad.links:
            assert re.match(r"/ui/|\?|#|$", link), link


def test_hostile_names_forge_no_line_of_the_audit(locked: ConsoleApp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    assert log_in(Browser(locked), user='x\r\nconsole: user="root"\u2028', password="x") == 401
    (line,) = [record.getMessage() for record in caplog.records]
    assert "\n" not in line
    assert line.isascii()
    assert line.startswith('console: user="x\\r\\n')


def test_a_browser_sends_the_origin_of_its_own_forms(browser: Browser) -> None:
    """With the policy `no-referrer` Chromium sends "null", and each action would be refused."""
    assert browser.get("/ui/connectors").headers["referrer-policy"] == "same-origin"
