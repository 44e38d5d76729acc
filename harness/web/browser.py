"""The Chromium of the system's packages: for tests of pages, and for the documents' pictures of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = "Chromium is missing: apt-get install chromium"


def find_chromium() -> str | None:
    """The path of the program; None if the system has none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def launch_chromium(play: Playwright, program: str) -> Browser:
    """Start the program without a window; the caller closes it."""
    # A container's root is unable to make Chromium's sandbox.
    return play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
