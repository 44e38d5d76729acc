"""`/metrics` and `/metrics.json`: among a worker's resources, and at addresses of their own."""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.unit.connect.serving import serving
from twinlog.connect.rest.metrics import MetricsServer, metrics_server
from twinlog.settings import worker as settings
from twinlog.settings.worker import ListenerAddress, MetricsSettings
from twinlog.worker.connectors.model import Health, HealthStatus

FREE = ListenerAddress("http", "127.0.0.1", 0)


class Pages:
    """Answers with what was asked."""

    def text(self, accept: str) -> tuple[str, bytes]:
        return "text/plain; version=0.0.4; charset=utf-8", f"asked_for_{len(accept)} 1\n".encode()

    def json(self) -> bytes:
        return b'{"value":{}}'


def get(url: str, path: str, accept: str = "", method: str = "GET") -> tuple[int, str, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.request(method, path, headers={"Accept": accept} if accept else {})
    answer = connection.getresponse()
    found = answer.status, answer.headers.get("content-type", ""), answer.read().decode()
    connection.close()
    return found


def test_a_worker_has_the_pages_on_its_listeners() -> None:
    with serving(metrics=Pages()) as client:
        assert get(client.url, "/metrics", "text/plain") == (
            200,
            "text/plain; version=0.0.4; charset=utf-8",
            "asked_for_10 1\n",
        )
        status, kind, body = get(client.url, "/metrics.json")
        assert (status, kind, json.loads(body)) == (200, "application/json", {"value": {}})
        assert get(client.url, "/metrics", method="POST")[0] == 405


def test_without_pages_there_is_nothing() -> None:
    with serving() as client:
        assert get(client.url, "/metrics")[0] == 404


def test_addresses_of_their_own_have_the_pages_and_nothing_else() -> None:
    server = MetricsServer(Pages(), [FREE, FREE])
    server.start()
    try:
        for url in server.urls:
            assert get(url, "/metrics")[2] == "asked_for_0 1\n"
            assert get(url, "/metrics.json")[0] == 200
            status, _, body = get(url, "/connectors")
            assert (status, "/metrics" in body) == (404, True)
            assert get(url, "/metrics", method="DELETE")[0] == 405
    finally:
        server.stop()
    with pytest.raises(OSError, match="refused"):
        get(server.urls[0], "/metrics")


@pytest.mark.parametrize(("health", "status"), [(Health.HEALTHY, 200), (Health.STARTING, 503), (Health.UNHEALTHY, 500)])
def test_a_worker_says_there_how_it_is_without_a_login(health: Health, status: int) -> None:
    server = MetricsServer(Pages(), [FREE], health=lambda: HealthStatus(health, "why"))
    server.start()
    try:
        found, _, body = get(server.urls[0], "/health")
        assert (found, json.loads(body)) == (status, {"status": health.value, "message": "why"})
        assert get(server.urls[0], "/live")[0] == 200
    finally:
        server.stop()


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        wanted = MetricsSettings((settings.ListenerAddress("http", "127.0.0.1", port),))
        server = metrics_server(wanted, Pages())
        with pytest.raises(OSError, match=rf"cannot listen at http://127\.0\.0\.1:{port}"):
            server.start()
