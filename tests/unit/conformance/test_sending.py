"""One request as it stands, and its answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from conformance.sending import send


class _Echo(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Allow", "POST,GET, HEAD")
        self.send_header("X-Twice", "a")
        self.send_header("X-Twice", "b")
        self.send_header("Via", "nobody")
        self.end_headers()
        sent = (
            f'{{"path": "{self.path}", "type": "{self.headers.get("Content-Type")}", "body": {body.decode() or "0"}}}'
        )
        self.wfile.write(sent.encode())

    def do_GET(self) -> None:
        self.send_response(404)
        self.end_headers()
        self.wfile.write(b'{"error_code":404}' if self.path == "/json" else b"{no" if self.path == "/half" else b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_headers_that_count_are_kept_and_methods_are_a_set(url: str) -> None:
    answer = send(url, "POST", "/a", {"k": None})
    assert answer.status == 201
    assert answer.headers == {"Content-Type": "application/json", "Allow": "GET,HEAD,POST", "X-Twice": "a, b"}
    assert answer.body == {"path": "/a", "type": "application/json", "body": {"k": None}}


def test_null_is_a_body_and_bytes_are_sent_as_they_are(url: str) -> None:
    assert send(url, "POST", "/a", None).body["body"] is None
    assert send(url, "POST", "/a", b"[1, 2]").body["body"] == [1, 2]


def test_paths_and_types_are_the_callers(url: str) -> None:
    answer = send(url, "POST", "//a/../%62;v=1?q=%zz", headers={"Content-Type": "text/plain"}, body=b"1")
    assert (answer.body["path"], answer.body["type"]) == ("/a/../%62;v=1?q=%zz", "text/plain")
    assert send(url, "POST", "/", {}, {"Content-Type": ""}).body["type"] == "None"


def test_json_is_read_without_a_content_type_and_text_stays_text(url: str) -> None:
    assert send(url, "GET", "/json").body == {"error_code": 404}
    assert send(url, "GET", "/half").body == "{no"
    assert send(url, "GET", "/nothing").body is None
