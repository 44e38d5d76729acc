"""The console against OWASP's list for such a page: sessions, forms of other sites, paths, sizes, logins, hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness.virtual.clock import VirtualClock
from tests.unit.ui.browser import FORM_COOKIE, SESSION_COOKIE, Answer, Browser
from tests.unit.ui.consoles import WatchedConsole
from tests.unit.ui.fakes import FakeSources
from tests.unit.ui.login.test_security import log_in
from twinlog.connect.rest.users import Users
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.login.login_check import FREE_OF_USER
from twinlog.ui.site import ConsoleSettings

RIGHT, WRONG = "Basic YWxpY2U6d29uZGVy", "Basic YWxpY2U6eA=="
EVIL = "evil.example"


def answer_of_login(browser: Browser, user: str, password: str, **headers: str) -> Answer:
    form = browser.get("/ui/login")
    return browser.post("/ui/login", {"token": form.token, "user": user, "password": password}, **headers)


def test_a_login_ends_the_session_that_the_browser_brought(locked: ConsoleApp) -> None:
    """Session fixation by a valid session, which an attacker with a login of his own plants into a browser."""
    attacker, victim = Browser(locked), Browser(locked)
    assert log_in(attacker) == 303
    planted = attacker.cookies[SESSION_COOKIE]
    form = victim.get("/ui/login")
    victim.cookies[SESSION_COOKIE] = planted
    fields = {"token": form.token, "user": "alice", "password": "wonder"}
    assert victim.post("/ui/login", fields).status == 303
    assert victim.cookies[SESSION_COOKIE] != planted
    assert victim.get("/ui/").status == 200
    assert attacker.get("/ui/").status == 303


def test_a_logout_ends_the_session_on_the_server(locked: ConsoleApp) -> None:
    browser = Browser(locked)
    assert log_in(browser) == 303
    kept, token = dict(browser.cookies), browser.get("/ui/").token
    assert Browser(locked, cookies=dict(kept)).get("/ui/").status == 200
    assert browser.post("/ui/logout", {"token": token}).status == 303
    assert browser.cookies == {}
    thief = Browser(locked, cookies=kept)
    assert thief.get("/ui/").status == 303
    assert thief.get("/ui/api/overview").status == 401
    assert thief.get("/ui/events?live=a-%3Eb").status == 401
    assert thief.post("/ui/logout", {"token": token}).status == 401


def test_cookies_over_http_are_kept_from_scripts_and_other_sites(locked: ConsoleApp) -> None:
    browser = Browser(locked)
    form = browser.get("/ui/login")
    fields = {"token": form.token, "user": "alice", "password": "wonder"}
    (of_form,) = form.cookies
    (session,) = (one for one in browser.post("/ui/login", fields).cookies if one.startswith(SESSION_COOKIE + "="))
    for cookie, path in ((of_form, "/ui/login"), (session, "/ui")):
        parts = [part.strip().lower() for part in cookie.split(";")]
        assert {"httponly", "samesite=strict", f"path={path}"} <= set(parts), cookie
        # A browser forgets it at its end, and sends it to no neighbour host.
        assert not any(part.startswith(("max-age", "expires", "domain")) for part in parts), cookie
    assert of_form.startswith(FORM_COOKIE)


def test_each_form_needs_the_token_of_its_session_and_its_own_origin(watched: WatchedConsole) -> None:
    good = [(name, values[0]) for name, values in watched.values.items()]
    mine, other, without = watched.log_in(), watched.log_in(), Browser(watched.app)
    token, foreign = watched.token(mine, "/ui/"), watched.token(other, "/ui/")
    kept, before = dict(mine.cookies), watched.effects
    for path in watched.forms:
        open_to_all = path == "/ui/login" and not watched.locked
        answers = []
        for wrong in ("", "x", token.upper(), token[:-1], foreign, watched.site.sessions.token("")):
            mine.cookies = dict(kept)
            answers.append(mine.post(path, [*good, ("token", wrong)]))
        mine.cookies = dict(kept)
        answers.append(mine.post(path, good))
        answers.append(mine.post(f"{path}?token={token}", good))
        answers.append(without.post(path, [*good, ("token", token)]))
        without.cookies.clear()
        assert {one.status for one in answers} <= ({303} if open_to_all else {401, 403}), path
        mine.cookies = dict(kept)
        for headers in (
            {"origin": f"http://{EVIL}"},
            {"origin": "null"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site", "origin": f"http://{mine.host}"},
        ):
            assert mine.post(path, [*good, ("token", token)], **headers).status == 403, (path, headers)
        assert watched.effects == before, path


def test_each_form_has_a_bounded_body(watched: WatchedConsole) -> None:
    inside, outside = watched.log_in(), Browser(watched.app)
    large = b"token=" + b"x" * watched.site.settings.body_bytes
    before = watched.effects
    for path in watched.forms:
        assert inside.post(path, large).status == 413, path
        assert inside.post(path, b"", content_length="9" * 10).status == 413, path
        assert inside.post(path, b"a=1&" * 6000).status == 400, path
        assert outside.post(path, large).status in (401, 413), path
    assert watched.effects == before


@pytest.mark.parametrize(
    "name",
    [
        *("../app.py", "..%2Fapp.py", "%2e%2e%2fapp.py", "..%5Capp.py", "....//app.py", "..%252Fapp.py"),
        *(
            "%2Fetc%2Fpasswd",
            "console.css%00.txt",
            "console.css/..",
            "console.css/../../app.py",
            "~root",
            ".",
            "%2e%2e",
        ),
    ],
)
def test_static_files_stay_in_their_folder(browser: Browser, app: ConsoleApp, name: str) -> None:
    known = app.site.assets.url("console.css")
    assert browser.get(known).status == 200
    folder = known.rpartition("/")[0]
    for url in (f"{folder}/{name}", f"/ui/static/{name}", f"/ui/static/{name}/console.css"):
        answer = browser.get(url)
        assert answer.status == 404, url
        assert "from __future__" not in answer.text
        assert "root:" not in answer.text


def test_a_wrong_login_tells_nothing_about_users(locked: ConsoleApp) -> None:
    answers = [answer_of_login(Browser(locked), user, "wrong") for user in ("alice", "nobody")]
    assert [one.status for one in answers] == [401, 401]
    texts = [re.sub(r'value="[0-9a-f]{64}"', "", one.text) for one in answers]
    assert "The user or the password is wrong." in texts[0]
    assert texts[0] == texts[1]


@pytest.fixture
def throttled(sources: FakeSources) -> Iterator[ConsoleApp]:
    """A console with a user, whose time stays at a moment."""
    app = console_app(sources, ConsoleSettings(Users({"alice": "wonder"})), VirtualClock())
    yield app
    app.close()


def test_wrong_logins_by_a_header_are_slowed_down_with_those_by_the_form(throttled: ConsoleApp) -> None:
    browser = Browser(throttled)
    for _ in range(FREE_OF_USER):
        assert browser.get("/ui/api/overview", authorization=WRONG).status == 401
    refused = browser.get("/ui/api/overview", authorization=RIGHT)
    assert refused.status == 429
    answer = answer_of_login(browser, "alice", "wonder")
    assert answer.status == 429
    assert answer.headers["retry-after"]
    assert SESSION_COOKIE not in browser.cookies


@pytest.mark.parametrize("target", [f"//{EVIL}", f"/\\{EVIL}", f"https://{EVIL}", "/ui/login?next=/ui/login", "\t//x"])
def test_the_login_page_leads_a_user_to_no_other_site(locked: ConsoleApp, target: str) -> None:
    browser = Browser(locked)
    assert log_in(browser) == 303
    quoted = target.replace("\\", "%5C").replace("\t", "%09").replace("?", "%3F")
    answer = browser.get(f"/ui/login?next={quoted}")
    assert (answer.status, answer.headers["location"]) == (303, "/ui/")


@pytest.mark.parametrize(
    "host", ["[", "[::1", "[x]", "", "@", ":", "a b", "\xe9vil.example", f"localhost.{EVIL}", f"localhost@{EVIL}", EVIL]
)
def test_a_host_of_another_name_or_form_is_refused(app: ConsoleApp, host: str) -> None:
    for page in ("/ui/", "/ui/login", "/ui/api/overview", "/ui/nothing"):
        assert Browser(app, host=host).get(page).status == 403, page
    assert Browser(app, host=host).post("/ui/login", {}).status == 403


@pytest.mark.parametrize("host", ["[", "[x]", "", EVIL, f"localhost:8081/{EVIL}?x"])
def test_the_host_of_a_request_is_in_no_answer(locked: ConsoleApp, host: str) -> None:
    """A proxy, a cache or a mail may have an answer whose links lead to the host that an attacker names."""
    browser = Browser(locked, host=host)
    asked = browser.get("/ui/topics?search=x")
    assert (asked.status, asked.headers["location"]) == (303, "/ui/login?next=/ui/topics%3Fsearch%3Dx")
    answers = [asked, browser.get("/ui"), browser.get("/ui/login"), answer_of_login(browser, "alice", "wonder")]
    assert answers[-1].headers["location"] == "/ui/"
    answers += [browser.get(page) for page in ("/ui/", "/ui/topics", "/ui/nothing", "/ui/api/overview")]
    assert [one.status for one in answers[-4:]] == [200, 200, 404, 200]
    for answer in answers:
        assert EVIL not in answer.text
        assert EVIL not in str(answer.headers)
