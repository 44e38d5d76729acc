from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FakeSources
from twinlog.ui.app import ConsoleApp, console_app


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
