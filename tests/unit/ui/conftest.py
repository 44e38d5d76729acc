from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.ui.browser import Browser
from tests.unit.ui.consoles import KINDS, WatchedConsole, watching
from tests.unit.ui.fakes import FakeSources
from twinlog.connect.rest.users import Users
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.site import ConsoleSettings


@pytest.fixture
def sources() -> FakeSources:
    return FakeSources()


@pytest.fixture
def app(sources: FakeSources) -> Iterator[ConsoleApp]:
    found = console_app(sources)
    yield found
    found.close()


@pytest.fixture
def browser(app: ConsoleApp) -> Browser:
    return Browser(app)


@pytest.fixture
def locked(sources: FakeSources) -> Iterator[ConsoleApp]:
    """A console with the user alice."""
    found = console_app(sources, ConsoleSettings(Users({"alice": "wonder"})))
    yield found
    found.close()


@pytest.fixture(params=KINDS)
def watched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WatchedConsole]:
    with watching(request.param, tmp_path, monkeypatch) as found:
        yield found
