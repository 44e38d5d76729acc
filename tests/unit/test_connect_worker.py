"""Where a worker of Kafka's is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.connect import worker as connect_worker
from harness.connect.worker import ConnectWorker, first_listener
from harness.errors import HarnessError


@pytest.mark.parametrize(
    ("listeners", "url"),
    [
        ("listeners=http://127.0.0.1:81", "http://127.0.0.1:81"),
        ("listeners = HTTP://0.0.0.0:8083", "http://127.0.0.1:8083"),
        ("listeners=https://:82,http://:83", "https://127.0.0.1:82"),
        ("group.id=g", "http://127.0.0.1:8083"),
    ],
)
def test_the_first_listener_is_asked_on_loopback(listeners: str, url: str) -> None:
    assert first_listener(listeners + "\n") == url


def test_a_port_that_the_system_chooses_is_refused() -> None:
    with pytest.raises(HarnessError, match="must name its port"):
        first_listener("listeners=http://127.0.0.1:0\n")


@pytest.mark.parametrize(("version", "option"), [("3.9.1", "-Dlog4j.configuration="), ("4.3.0", "-Dlog4j2.conf")])
def test_options_and_files_reach_the_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, option: str
) -> None:
    monkeypatch.setattr(connect_worker, "jvm_command", lambda *args: ["java", "-cp", "x", args[2]])
    worker = ConnectWorker(
        "standalone",
        version=version,
        options=["-Da=b"],
        connectors=[tmp_path / "c.json"],
        work_dir=tmp_path,
    )
    java, given, log, *rest = worker.process.command
    assert (java, given) == ("java", "-Da=b")
    assert log.startswith(option)
    assert rest[2:] == [
        "org.apache.kafka.connect.cli.ConnectStandalone",
        str(tmp_path / "worker.properties"),
        str(tmp_path / "c.json"),
    ]
