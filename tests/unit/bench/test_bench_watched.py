"""The clients that watch a flow while the bench measures it: browsers with the console's page open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from bench.copies import watched
from bench.copies.watched import Browsers
from bench.systems import ALIASES, TARGET
from harness.errors import HarnessError
from harness.wait import wait_for
from tests.unit.ui.fakes import FakeSources
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.connect.rest.serving import Limits, ServerThread, bind, close, servers
from twinlog.model.types import Alias
from twinlog.settings.worker import ListenerAddress
from twinlog.ui.app import ConsoleApp, console_app

BROWSERS = 5
DEADLINE_S = 60.0


@pytest.fixture
def browsers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browsers]:
    monkeypatch.setattr(watched, "EVERY_S", 0.05)
    found = Browsers()
    yield found
    found.close()


@pytest.fixture
def app(browsers: Browsers, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleApp]:
    """The console of the flow of the bench, at the address that the browsers know, with news five times a second."""
    monkeypatch.setattr("twinlog.ui.live.flows.EVERY_S", 0.2)
    sources = FakeSources(replace(SETTINGS, source=Alias(ALIASES["twinlog"]), target=Alias(TARGET)))
    made = console_app(sources)
    where = urlsplit(browsers.listener)
    bound = bind([ListenerAddress("http", where.hostname or "", where.port or 0)])
    serving = ServerThread("console-server")
    assert serving.begin(servers(bound, made, None, Limits()))
    yield made
    made.close()
    serving.end()
    close(bound)


def test_each_browser_keeps_its_session_and_follows_its_stream(browsers: Browsers, app: ConsoleApp) -> None:
    browsers.start()
    assert not browsers.opened
    wait_for(lambda: browsers.opened, DEADLINE_S, "each browser has its page")
    assert len(browsers.took_ms) >= BROWSERS
    wait_for(lambda: len(browsers.refreshed_at) >= 4 * BROWSERS, DEADLINE_S, "the browsers show news")
    browsers.require_watched()
    assert len(app.site.sessions) == BROWSERS
    # A page for each browser, and its live part with each event.
    assert len(browsers.took_ms) >= BROWSERS + 4 * BROWSERS
    assert browsers.page_bytes > 1000
    running = list(browsers._running)
    browsers.stop()
    for thread in running:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    before = len(browsers.took_ms)
    browsers.start()
    wait_for(lambda: len(browsers.took_ms) >= before + BROWSERS, DEADLINE_S, "the browsers of a second run have pages")
    browsers.require_watched()


def test_browsers_wait_until_the_system_listens(browsers: Browsers) -> None:
    browsers.start()
    running = list(browsers._running)
    browsers.stop()
    for thread in running:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    browsers.require_watched()
    assert browsers.took_ms == []


def test_a_page_without_a_stream_ends_the_measurement(
    browsers: Browsers, app: ConsoleApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "FLOW_PAGE", "/ui/connectors")
    browsers.start()

    def ended() -> bool:
        return not any(thread.is_alive() for thread in browsers._running)

    wait_for(ended, DEADLINE_S, "the browsers have ended")
    with pytest.raises(HarnessError, match="has no stream of events"):
        browsers.require_watched()
    with pytest.raises(HarnessError, match="has no stream of events"):
        _ = browsers.opened
