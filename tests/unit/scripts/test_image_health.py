"""What the image's health check makes of a worker's answers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from scripts import image_health


class HealthServer(BaseHTTPRequestHandler):
    """Answers with the number in the path."""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]))
        self.end_headers()
        self.wfile.write(b"starting")

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), HealthServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", [200, 401])
def test_a_worker_that_answers_is_healthy(url: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_HEALTH_URL", f"{url}/{status}")
    image_health.main()


def test_one_that_is_not_ready_is_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_HEALTH_URL", f"{url}/503")
    with pytest.raises(SystemExit, match="answers 503: starting"):
        image_health.main()


def test_nor_is_one_that_does_not_answer() -> None:
    env = {"TWINLOG_HEALTH_URL": "http://127.0.0.1:1/health"}
    done = subprocess.run([sys.executable, image_health.__file__], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "does not answer" in done.stderr
