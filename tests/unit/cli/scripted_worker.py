"""An HTTP server that answers what a test has written down, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    body: Any
    authorization: str | None


@dataclass(frozen=True)
class Reply:
    """`body` is JSON, or bytes as they are."""

    status: int
    body: Any = None
    location: str | None = None


@dataclass
class ScriptedWorker:
    """Answers `GET /path` with what `replies` has for it: one reply after the other, the last one for ever."""

    url: str
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(self, request: str, *replies: Reply | Any) -> ScriptedWorker:
        """What is no Reply is the body of a good one."""
        self.replies[request] = [one if isinstance(one, Reply) else Reply(200, one) for one in replies]
        return self

    @property
    def requests(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.asked]

    def next_reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        wanted = self.replies.get(f"{asked.method} {asked.path}")
        if wanted is None:
            return error(404, "HTTP 404 Not Found")
        return wanted.pop(0) if len(wanted) > 1 else wanted[0]


def error(status: int, message: str) -> Reply:
    return Reply(status, {"error_code": status, "message": message})


@contextmanager
def scripted_worker(tls: ssl.SSLContext | None = None) -> Iterator[ScriptedWorker]:
    """One on a free port of loopback, with https where a context is given."""
    worker = ScriptedWorker("")

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            reply = worker.next_reply(Asked(self.command, self.path, body, self.headers.get("Authorization")))
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            content = b"" if reply.body is None else content
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(content)))
            if reply.location is not None:
                self.send_header("Location", reply.location)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as the library calls them

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        worker.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield worker
        finally:
            server.shutdown()
            thread.join()
