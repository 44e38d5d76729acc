"""`twinlog console`: its options, its exit codes, and its end."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from twinlog.console.command_class import CommandApp
from twinlog.ui.command import console, parse_listen, read_files

FILE = """\
clusters = s, w
s.bootstrap.servers = 127.0.0.1:{port}
w.bootstrap.servers = 127.0.0.1:{port}
s->w.enabled = true
"""
DEADLINE_S = 300.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE.format(port=9))
    return path


def call(*words: str) -> Any:
    app = CommandApp()
    app.command("console")(console)
    return CliRunner().invoke(app, list(words))


def test_addresses() -> None:
    assert str(parse_listen("127.0.0.1:8081", tls=False)) == "http://127.0.0.1:8081"
    assert str(parse_listen("[::1]:80", tls=True)) == "https://[::1]:80"
    assert parse_listen(":0", tls=False).host == ""
    for wrong in ("127.0.0.1", "x:99999", "ftp://x:1", "https://x:1", "x:y"):
        with pytest.raises(typer.BadParameter):
            parse_listen(wrong, tls=False)


@pytest.mark.parametrize("address", ["0.0.0.0:0", ":0", "192.0.2.1:80", "example.org:80"])
def test_without_users_no_other_machine_is_served(file: Path, address: str) -> None:
    done = call(str(file), "--listen", address)
    assert done.exit_code == 2
    assert "--users FILE" in " ".join(done.output.split())


def test_wrong_files_and_options_end_with_2(file: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("clusters = s, w\ns->w.enabled = perhaps\n")
    assert call(str(wrong)).exit_code == 2
    assert call(str(tmp_path / "missing.properties")).exit_code == 2
    assert call(str(file), "--users", str(tmp_path / "missing")).exit_code == 2
    assert call(str(file), "--tls-key", str(file)).exit_code == 2
    assert call(str(file), "--tls-cert", str(file)).exit_code == 2
    twice = call(str(file), str(file))
    assert twice.exit_code == 2
    assert "two files have a flow s->w" in " ".join(twice.output.split())


OAUTH = """\
twinlog.console.oauth.issuer = https://id.example
twinlog.console.oauth.client.id = console
twinlog.console.oauth.redirect.uri = https://mirror.example/ui/login/callback
"""


def test_a_login_at_an_issuer_serves_other_machines(file: Path, tmp_path: Path) -> None:
    login = tmp_path / "oauth.properties"
    login.write_text(OAUTH)
    done = call(str(file), "--listen", "0.0.0.0:0", "--oauth", str(login))
    assert done.exit_code == 2
    assert "twinlog.console.oauth.allowed.subjects: missing" in done.output
    login.write_text(f"{OAUTH}twinlog.console.oauth.allowed.groups = ops\n")
    with socket.create_server(("0.0.0.0", 0)) as taken:
        done = call(str(file), "--listen", f"0.0.0.0:{taken.getsockname()[1]}", "--oauth", str(login))
    # It would serve.
    assert done.exit_code == 3


def test_a_taken_address_ends_with_3(file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = call(str(file), "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.exit_code == 3


def test_files_of_connectors_follow_their_worker(tmp_path: Path, file: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(
        "bootstrap.servers=w-1:9092\ngroup.id=g\nconfig.storage.topic=c\noffset.storage.topic=o\n"
        "status.storage.topic=t\nkey.converter=org.apache.kafka.connect.converters.ByteArrayConverter\n"
        "value.converter=org.apache.kafka.connect.converters.ByteArrayConverter\n"
    )
    source = tmp_path / "source.properties"
    source.write_text(
        "name=copy\nconnector.class=org.apache.kafka.connect.mirror.MirrorSourceConnector\n"
        "source.cluster.alias=s\ntarget.cluster.alias=w\nsource.cluster.bootstrap.servers=s-1:9092\n"
        "target.cluster.bootstrap.servers=w-1:9092\n"
    )
    found = read_files([file, worker, source], None)
    assert [[flow.name for flow in one.flows] for one in found] == [["s->w", "w->s"], ["copy"]]
    assert found[1].worker is not None


def test_it_serves_until_sigterm_also_with_a_stream_open(file: Path) -> None:
    code = "import sys; from twinlog.console.command_class import CommandApp; from twinlog.ui.command import console\n"
    code += "app = CommandApp(); app.command('console')(console); app()"
    words = [sys.executable, "-c", code, str(file), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            port, _ = _port(process)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
            connection.request("GET", "/ui/", headers={"Accept": "text/html"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert (answer.status, "<h1>Overview</h1>" in text) == (200, True)
            cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
            connection.request("GET", "/ui/events?live=s-%3Ew", headers={"Cookie": cookie})
            stream = connection.getresponse()
            assert (stream.status, stream.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
            assert stream.readline() == b"retry: 3000\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
            connection.close()
            _, errors = process.communicate()
            assert "stopping (SIGTERM)" in errors
            assert "Traceback" not in errors
        finally:
            process.kill()


def _port(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The port that the command logs, and its lines until then."""
    assert process.stderr is not None
    lines = ""
    while True:
        line = process.stderr.readline()
        assert line, lines
        lines += line
        found = re.search(r"the console is at http://127\.0\.0\.1:(\d+)/ui/", line)
        if found is not None:
            return int(found[1]), lines
