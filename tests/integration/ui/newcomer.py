"""A console that knows no file, and its visitor."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.child import Child
from harness.ports import claim_port, release_port
from harness.wait import wait_for
from tests.integration.ui.visitor import Visitor

START_S = 180.0


class Newcomer:
    """A console that knows no file, and its visitor."""

    def __init__(self, home: Path) -> None:
        self.port = claim_port()
        listen = f"127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "twinlog", "console", "--output-dir", str(home), "--listen", listen]
        self.console = Child("console", command, home / "console.log")
        self.visitor = Visitor(self.port)

    def start(self) -> None:
        self.console.start()
        wait_for(self.visitor.is_served, START_S, "the console is served")

    def close(self) -> None:
        self.console.kill()
        release_port(self.port)

    def send(self, page: str, path: str, *fields: tuple[str, str], **query: str) -> str:
        """Send the form of a page with further fields; returns the address of the next page."""
        hidden = self.visitor.hidden(page, **query)
        with self.visitor.open(path, [*hidden.items(), *fields]) as answer:
            return str(answer.geturl())
