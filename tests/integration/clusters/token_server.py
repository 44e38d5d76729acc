"""A token server, and tokens that nobody has signed."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


def unsigned(claims: Mapping[str, object]) -> str:
    """A token with these claims, as a broker takes it that checks no signature."""
    return f"{_packed({'alg': 'none'})}.{_packed(claims)}."


def _packed(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


@dataclass
class TokenServer:
    """An OAuth token endpoint that knows one client; fails `failures` times."""

    url: str
    failures: list[int] = field(default_factory=list)
    asked: list[dict[str, list[str]]] = field(default_factory=list)


@contextlib.contextmanager
def serving_tokens() -> Iterator[TokenServer]:
    """A server on a free port of loopback, stopped afterwards."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.append(urllib.parse.parse_qs(body.decode()))
            login = base64.b64decode(self.headers["Authorization"].partition(" ")[2]).decode()
            if server.failures:
                self.answer(server.failures.pop(), {})
            elif login != "mirror:client-secret":
                self.answer(401, {"error": "invalid_client", "error_description": "who are you?"})
            else:
                now = time.time()
                claims = {"sub": "mirror", "iat": now, "exp": now + 60, "scope": "kafka"}
                self.answer(200, {"access_token": unsigned(claims), "expires_in": 60})

        def answer(self, status: int, content: dict[str, Any]) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        server = TokenServer(f"http://127.0.0.1:{listening.server_port}/token")
        yield server
        listening.shutdown()
        thread.join(60)
