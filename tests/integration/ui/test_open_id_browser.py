"""A login at an issuer of another site in Chromium: the cookies and the policy of the console let it through."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from harness.ports import claim_port, release_port
from harness.web.browser import launch_chromium
from harness.web.open_id import OpenIdIssuer
from tests.integration.ui.test_browser import WatchedPage, barriers, chromium_program, too_wide
from tests.unit.ui.fakes import FakeSources
from twinlog.connect.rest.serving import Limits, ServerThread, bind, close, servers
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.worker import ListenerAddress
from twinlog.ui.app import console_app
from twinlog.ui.site import ConsoleSettings

LOOK_MS = 60_000.0
PHONE = 390


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    program = chromium_program()
    with sync_playwright() as play:
        browser = launch_chromium(play, program)
        yield browser
        # Chromium may never close a context whose pages have streams; a browser ends after half a minute at most.
        browser.close()


@pytest.fixture
def root() -> Iterator[str]:
    """The address of a console. Its site is localhost, that of its issuer 127.0.0.1."""
    port = claim_port()
    root = f"http://localhost:{port}"
    with OpenIdIssuer(redirect_uri=f"{root}/ui/login/callback") as issuer:
        issuer.claims["groups"] = ["ops"]
        login = OpenIdSettings(issuer.url, "console", "hush", issuer.redirect_uri, groups=("ops",))
        app = console_app(FakeSources(), ConsoleSettings(open_id=login))
        bound = bind([ListenerAddress("http", "127.0.0.1", port)])
        serving = ServerThread("console-server")
        assert serving.begin(servers(bound, app, None, Limits()))
        yield root
        app.close()
        serving.end()
        close(bound)
    release_port(port)


def test_a_user_logs_in_and_out_in_chromium(root: str, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": PHONE, "height": 900}, locale="en-US")
    watched = WatchedPage(context, root)
    page = watched.open("/topics", search="orders")
    assert page.url.startswith(f"{root}/ui/login?next=")
    assert too_wide(page, "/login") == []
    assert barriers(page) == []
    page.get_by_role("link", name="Log in at").click()
    # The page after the login has the cookie of the session, and no further click is needed.
    page.wait_for_url(f"{root}/ui/topics?search=orders", timeout=LOOK_MS)
    page.get_by_role("button", name="Log out u-1").wait_for(timeout=LOOK_MS)
    kept = {one["name"].rpartition("-")[0]: one for one in context.cookies(f"{root}/ui/")}
    session = kept["twinlog-console"]
    assert (session["sameSite"], session["httpOnly"]) == ("Strict", True)
    assert "twinlog-console-issuer" not in kept
    page.get_by_role("button", name="Log out u-1").click()
    page.get_by_role("heading", name="Log in").wait_for(timeout=LOOK_MS)
    watched.open("/topics")
    page.get_by_role("heading", name="Log in").wait_for(timeout=LOOK_MS)
    assert watched.complaints == []
    # Only the redirect of the login led elsewhere.
    assert all("/authorize?" in url for url in watched.elsewhere), watched.elsewhere


def test_a_login_under_another_name_of_the_host_ends_in_chromium(root: str, chromium: Browser) -> None:
    context = chromium.new_context(locale="en-US")
    page = context.new_page()
    page.goto(f"{root}/ui/topics?search=orders".replace("localhost", "127.0.0.1"))
    page.get_by_role("link", name="Log in at").click()
    page.wait_for_url(f"{root}/ui/topics?search=orders", timeout=LOOK_MS)
    page.get_by_role("button", name="Log out u-1").wait_for(timeout=LOOK_MS)


def test_the_logins_of_two_tabs_both_end_in_chromium(root: str, chromium: Browser) -> None:
    context = chromium.new_context(locale="en-US")
    paths = ("/ui/topics?search=orders", "/ui/groups")
    begun = [context.request.get(f"{root}/ui/login/oauth?next={path}", max_redirects=0) for path in paths]
    for path, answer in zip(paths, begun, strict=True):
        page = context.new_page()
        page.goto(answer.headers["location"])
        page.wait_for_url(f"{root}{path}", timeout=LOOK_MS)
        page.get_by_role("button", name="Log out u-1").wait_for(timeout=LOOK_MS)
