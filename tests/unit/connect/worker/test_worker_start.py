"""A worker answers on every address before it has reached a cluster, and long before Spark is needed."""

from __future__ import annotations

import json
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import authority
from tests.unit.config.files import kafkas_files
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.connect import worker as worker_module
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.serving import Limits
from twinlog.connect.worker import Worker
from twinlog.errors import ClusterError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.settings.tls import TlsSettings, tls_context
from twinlog.worker.spark_flows import SparkOptions

ABOVE = authority()
READING = re.compile(
    r"Request timed out\. The worker is currently initializing and reading to the end of internal topics, "
    r"which began at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z\."
)


class SilentClusters:
    """Clusters that no call reaches before `over`; `asked` is set by the first call."""

    def __init__(self) -> None:
        self.asked, self.over = threading.Event(), threading.Event()

    def connect(self, *_: object) -> None:
        self.asked.set()
        self.over.wait()
        raise ClusterError("the test is over")


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentClusters]:
    silent = SilentClusters()
    monkeypatch.setattr(ClusterAdmin, "connect", silent.connect)
    yield silent
    silent.over.set()


def ask(url: str, path: str, tls: ssl.SSLContext) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url + path, timeout=60, context=tls) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("text", [kafkas_files.DISTRIBUTED, kafkas_files.STANDALONE], ids=["distributed", "standalone"])
def test_every_address_answers_before_any_cluster_does(
    text: str, clusters: SilentClusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "RestApi", partial(RestApi, limits=Limits(request_s=0.5)))
    text = text.replace("/tmp/connect.offsets", str(tmp_path / "offsets"))
    text += "listeners = http://127.0.0.1:0, HTTP://127.0.0.1:0\nadmin.listeners = http://127.0.0.1:0\n"
    distributed = "group.id" in text
    text += "session.timeout.ms = 30000\n" if distributed else ""
    config = worker_of(parse_properties(text, "w"), "w", distributed=distributed)
    own = ABOVE.issue("worker", ["127.0.0.1", "localhost"])
    shown = TlsSettings(ABOVE.pem, own.chain_pem, own.key_pem())
    rest = config.settings.rest
    https = replace(rest.listeners[1], scheme="https")
    rest = replace(rest, listeners=(rest.listeners[0], https), https=shown)
    worker = Worker(replace(config, settings=replace(config.settings, rest=rest)), SparkOptions())
    assert worker.server._api.takeover_s == (63.0 if distributed else 0.0)
    tls = tls_context(TlsSettings(ABOVE.pem))
    # `start` returns with every address open; only then somebody asks for a cluster.
    worker.start()
    try:
        urls, (admin,) = worker.server.urls, worker.server.admin_urls
        assert [url.partition(":")[0] for url in urls] == ["http", "https"]
        for url in urls:
            status, found = ask(url, "/", tls)
            assert (status, found["kafka_cluster_id"]) == (200, "")
            status, found = ask(url, "/health", tls)
            assert (status, found["status"]) == (503, "starting")
            status, found = ask(url, "/connectors", tls)
            assert status == 500
            assert READING.fullmatch(found["message"]), found
        assert ask(admin, "/admin/loggers/root", tls)[0] == 200
        assert clusters.asked.wait(60)
    finally:
        # A thread that is left would log in the tests after this test.
        stopping = threading.Thread(target=worker.stop, daemon=True)
        stopping.start()
        clusters.over.set()
        stopping.join(60)
