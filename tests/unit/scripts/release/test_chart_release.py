"""The packed chart is the chart, and Helm's own library pulls the OCI layout from a registry that serves it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import helm_python
import pytest

from harness.containers.chart import CHART
from scripts.release.archives import unpack
from scripts.release.chart import pack_chart, read_about, write_layout
from scripts.release.checkout import ReleaseError

EPOCH = 1_700_000_000
VERSION = "0.1.0"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return pack_chart(CHART, tmp_path / "chart", VERSION, EPOCH)


def test_helm_reads_the_packed_chart_as_it_reads_the_folder(packed: Path) -> None:
    assert packed.name == f"twinlog-{VERSION}.tgz"
    with helm_python.Chart.load(str(packed)) as chart, helm_python.Chart.load(str(CHART)) as folder:
        assert chart.render({}) == folder.render({})
        assert chart.metadata == folder.metadata | {"appVersion": VERSION}
    assert set(unpack(packed.read_bytes())) == {
        f"twinlog/{path.relative_to(CHART).as_posix()}" for path in CHART.rglob("*") if path.is_file()
    }


def test_the_same_chart_has_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    assert pack_chart(CHART, tmp_path / "again", VERSION, EPOCH).read_bytes() == packed.read_bytes()


def test_another_app_version_in_the_chart_is_refused(tmp_path: Path) -> None:
    chart = tmp_path / "x"
    chart.mkdir()
    (chart / "Chart.yaml").write_text("name: x\nversion: 0.1.0\nappVersion: 9.9.9\n")
    with pytest.raises(ReleaseError, match=r"appVersion 9\.9\.9, and the release is 0\.1\.0"):
        pack_chart(chart, tmp_path, VERSION, EPOCH)


def test_every_blob_of_the_layout_has_its_digest_and_size(packed: Path, tmp_path: Path) -> None:
    layout = write_layout(packed, read_about(packed), tmp_path / "oci", EPOCH)
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    (listed,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(layout, listed["digest"]))
    assert manifest["config"]["mediaType"] == "application/vnd.cncf.helm.config.v1+json"
    assert [layer["mediaType"] for layer in manifest["layers"]] == [
        "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    ]
    for entry in (listed, manifest["config"], *manifest["layers"]):
        data = blob(layout, entry["digest"])
        assert len(data) == entry["size"]
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == entry["digest"]
    assert blob(layout, manifest["layers"][0]["digest"]) == packed.read_bytes()
    assert len(list((layout / "blobs/sha256").iterdir())) == 3


@pytest.mark.parametrize("version", ["0.1.0", "0.1.0-dev.0+g1234.dirty"])
def test_helm_pulls_the_layout(tmp_path: Path, version: str) -> None:
    chart = tmp_path / "twinlog"
    for name, file in unpack(pack_chart(CHART, tmp_path / "first", VERSION, EPOCH).read_bytes()).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
    text = (chart / "Chart.yaml").read_text()
    (chart / "Chart.yaml").write_text(text.replace(f"version: {VERSION}", f"version: {version}"))
    packed = pack_chart(chart, tmp_path / "second", VERSION, EPOCH)
    layout = write_layout(packed, read_about(packed), tmp_path / "oci", EPOCH)
    target = tmp_path / "pulled"
    target.mkdir()
    with registry(layout) as address:
        helm_python.pull(f"oci://{address}/kafka/twinlog", version=version, plain_http=True, destination=target)
    (pulled,) = target.iterdir()
    assert pulled.read_bytes() == packed.read_bytes()


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / digest.replace(":", "/")).read_bytes()


@contextmanager
def registry(layout: Path) -> Iterator[str]:
    """A registry on loopback that has the one manifest of a layout under the tag of the layout; yields its address."""
    (listed,) = json.loads((layout / "index.json").read_text())["manifests"]
    tag = listed["annotations"]["org.opencontainers.image.ref.name"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, kind, name = self.path.partition("?")[0].split("/")
            digest = listed["digest"] if kind == "manifests" and name == tag else name
            if self.path == "/v2/":
                self.answer(b"{}", "application/json", "")
            elif kind in {"manifests", "blobs"} and (layout / "blobs" / digest.replace(":", "/")).is_file():
                media_type = listed["mediaType"] if kind == "manifests" else "application/octet-stream"
                self.answer(blob(layout, digest), media_type, digest)
            else:
                self.send_error(404)

        def do_HEAD(self) -> None:
            self.do_GET()

        def answer(self, data: bytes, media_type: str, digest: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(data)))
            if digest:
                self.send_header("Docker-Content-Digest", digest)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
