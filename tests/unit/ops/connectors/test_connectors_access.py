"""How `twinlog connectors` reaches a worker: addresses, logins, certificates, and what it waits for."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.certificates import authority
from harness.virtual.clock import VirtualClock
from tests.unit.cli.scripted_worker import Reply, ScriptedWorker, error, scripted_worker
from twinlog.errors import ConfigError, RequestError, TwinlogError
from twinlog.ops.connectors.rest import KEY_PASSWORD, NETRC, PASSWORD, USER, Access, ConnectRest, TlsFiles, access

REBALANCES = error(409, "Cannot complete request momentarily due to a rebalance")


@pytest.fixture
def worker() -> Iterator[ScriptedWorker]:
    with scripted_worker() as one:
        yield one


def rest(url: str, said: list[str], **more: bool) -> ConnectRest:
    way = access(url, TlsFiles(), {NETRC: "/dev/null"})
    return ConnectRest(way, said.append, patience_s=20, clock=VirtualClock(), **more)


def test_addresses() -> None:
    def of(url: str) -> Access:
        return access(url, TlsFiles(), {NETRC: "/dev/null"})

    assert of("connect:8083") == Access("connect", 8083)
    assert of("http://connect/proxy/") == Access("connect", 80, "/proxy")
    assert of("HTTP://[::1]:1").url == "http://[::1]:1"
    secure = of("https://connect")
    assert (secure.port, secure.url, secure.tls is not None) == (443, "https://connect:443", True)


@pytest.mark.parametrize("url", ["ftp://connect", "http://", "http://connect:x", "http://c?a=b", ""])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigError, match=r"write an address, for example http://localhost:8083"):
        access(url, TlsFiles(), {})


def test_a_login_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match=PASSWORD) as refused:
        access("http://me:hush@connect", TlsFiles(), {})
    assert "hush" not in str(refused.value)


def login(environment: dict[str, str], warned: list[str] | None = None) -> str | None:
    way = access("http://connect:1", TlsFiles(), environment, (warned if warned is not None else []).append)
    assert "hush" not in repr(way)
    return None if way.authorization is None else base64.b64decode(way.authorization.removeprefix("Basic ")).decode()


def test_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "login"
    file.write_text("machine other login x password y\nmachine connect login me password hush:ed\n")
    assert login({}) is None
    assert login({USER: "mé", PASSWORD: "hush"}) == "mé:hush"
    assert login({NETRC: str(file)}) == "me:hush:ed"
    assert login({NETRC: str(file), USER: "you", PASSWORD: "hush"}) == "you:hush"
    file.rename(tmp_path / ".netrc")
    (tmp_path / ".netrc").chmod(0o600)
    assert login({}) == "me:hush:ed"
    warned: list[str] = []
    (tmp_path / ".netrc").chmod(0o644)
    assert login({}, warned) is None
    (tmp_path / ".netrc").write_text("machine connect login me password hush garbage")
    assert login({}, warned) is None
    assert warned[0] == "~/.netrc is ignored: other users may read it (chmod 600 ends that)"
    assert "hush" not in "".join(warned)


@pytest.mark.parametrize(
    ("environment", "words"),
    [({PASSWORD: "hush"}, USER), ({NETRC: "/nowhere"}, "No such file"), ({NETRC: "/"}, "directory")],
)
def test_variables_that_are_no_good(environment: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        login(environment)
    assert "hush" not in str(refused.value)


def test_certificates_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certified = authority()
    cacert, cert = tmp_path / "ca.pem", tmp_path / "cert.pem"
    cacert.write_text(certified.pem)
    issued = certified.issue("worker", ["127.0.0.1"])
    issued.write_pem(cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
    context.load_verify_locations(cacert)
    context.verify_mode = ssl.CERT_REQUIRED
    empty = {NETRC: "/dev/null"}
    with scripted_worker(context) as worker:
        worker.on("GET /", {"version": "4"})
        good = ConnectRest(access(worker.url, TlsFiles(cacert, cert), empty), print)
        assert good.get() == {"version": "4"}
        stranger = ConnectRest(access(worker.url, TlsFiles(), empty), print)
        with pytest.raises(TwinlogError, match=r"is untrusted: .*; --cacert names an authority"):
            stranger.get()
    with pytest.raises(ConfigError, match=r"--cacert: .*write a PEM file"):
        access("https://c", TlsFiles(cacert=tmp_path / "none"), empty)
    with pytest.raises(ConfigError, match=KEY_PASSWORD):
        access("https://c", TlsFiles(cacert, cacert), empty)
    with pytest.raises(ConfigError, match="--cert is missing beside it"):
        access("https://c", TlsFiles(key=cert), empty)
    with pytest.raises(ConfigError, match="write https"):
        access("http://c", TlsFiles(cacert), empty)


@pytest.mark.parametrize(
    ("passing", "words"),
    [
        (REBALANCES, "the workers rebalance: Cannot complete"),
        (error(500, "Request cannot be completed because a rebalance is expected"), "the workers rebalance: Request"),
        (error(503, "Worker is still starting up."), "the worker is still starting: Worker is still starting up."),
    ],
)
def test_what_passes_is_waited_for(worker: ScriptedWorker, passing: Reply, words: str) -> None:
    said: list[str] = []
    worker.on("PUT /connectors/c/pause", passing, passing, Reply(202))
    assert rest(worker.url, said).send_request("PUT", "connectors", "c", "pause") == (202, None)
    assert len(worker.asked) == 3
    assert len(said) == 1
    assert said[0].startswith(words)
    assert said[0].endswith("; trying again for at most 20 s")
    worker.on("GET /connectors", passing)
    with pytest.raises(RequestError, match="and that took longer than 20 s") as late:
        rest(worker.url, said).get("connectors")
    assert late.value.status == passing.status


def test_a_worker_that_knows_no_path_yet(worker: ScriptedWorker) -> None:
    said: list[str] = []
    worker.on("GET /connectors", Reply(404, b"<html>"), [])
    worker.on("GET /health", error(503, "starting"))
    assert rest(worker.url, said).get("connectors") == []
    assert said == ["the worker still starts; trying again for at most 20 s"]


def test_what_does_not_pass_is_asked_once(worker: ScriptedWorker) -> None:
    worker.on("POST /connectors", error(409, "Connector c already exists"))
    with pytest.raises(RequestError, match=r"^Connector c already exists$"):
        rest(worker.url, []).send_request("POST", "connectors", body={"name": "c"})
    assert len(worker.asked) == 1


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, b"<html>"), "differs from a worker of Kafka Connect"),
        (Reply(302, None, "https://elsewhere/"), "sends on to https://elsewhere/"),
        (Reply(401, b"User cannot access the resource."), f"asks for a login: set {USER} and {PASSWORD}"),
        (Reply(500, b"oops\x1b[2J"), r"HTTP 500: oops\[2J$"),
        (error(500, "it says\x1b[2J"), r"it says\[2J$"),
        (error(500, "Request timed out. reading"), "Request timed out. reading"),
        (Reply(404, b"<html>"), "HTTP 404: <html>"),
    ],
)
def test_what_is_no_good_answer(worker: ScriptedWorker, reply: Reply, words: str) -> None:
    worker.on("GET /connectors", reply)
    with pytest.raises(TwinlogError, match=words):
        rest(worker.url, []).get("connectors")


def test_a_slash_that_a_worker_does_not_take(worker: ScriptedWorker) -> None:
    worker.on("GET /connectors/a%2Fb", Reply(400, b"<html>Ambiguous URI path separator"))
    with pytest.raises(RequestError, match="this worker refuses requests about a name with a slash in it"):
        rest(worker.url, []).get("connectors", "a/b")


@pytest.mark.parametrize(("name", "path"), [(".", "/connectors/%2E/status"), ("..", "/connectors/%2E%2E/status")])
def test_a_name_of_dots_leads_to_no_other_path(worker: ScriptedWorker, name: str, path: str) -> None:
    worker.on(f"GET {path}", Reply(404, b'{"error_code": 404, "message": "Connector is unknown"}'))
    with pytest.raises(RequestError, match="is unknown"):
        rest(worker.url, []).get("connectors", name, "status")


def test_nothing_listens() -> None:
    with scripted_worker() as gone:
        url = gone.url
    said: list[str] = []
    with pytest.raises(TwinlogError, match=r"the port is closed at .* --listens-later"):
        rest(url, said).get("connectors")
    assert said == []
    with pytest.raises(TwinlogError, match="the port is closed"):
        rest(url, said, listens_later=True).get("connectors")
    assert said == [f"the port is closed at {url}; trying again for at most 20 s"]


def test_a_path_before_the_api(worker: ScriptedWorker) -> None:
    worker.on("GET /proxy/connectors?expand=info", {})
    assert rest(f"{worker.url}/proxy/", []).get("connectors", expand="info") == {}
