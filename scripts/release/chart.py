"""The Helm chart as Helm packs it, and as an OCI image layout that registries take."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from scripts.release.archives import PackedFile, files_below, pack, unpack
from scripts.release.checkout import ReleaseError

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def pack_chart(chart: Path, target: Path, app_version: str, epoch: int) -> Path:
    """Pack the chart in the folder `chart` into `target/NAME-VERSION.tgz`, as `helm package --app-version` does.

    Raises ReleaseError if Chart.yaml has an `appVersion` already that differs.
    """
    files = files_below(chart)
    about = YAML(typ="safe").load(files["Chart.yaml"].data)
    if about.get("appVersion", app_version) != app_version:
        raise ReleaseError(
            f"Chart.yaml has appVersion {about['appVersion']}, and the release is {app_version}: remove the line"
        )
    if "appVersion" not in about:
        files["Chart.yaml"] = PackedFile(
            files["Chart.yaml"].data.rstrip() + f'\nappVersion: "{app_version}"\n'.encode()
        )
    target.mkdir(parents=True, exist_ok=True)
    packed = target / f"{about['name']}-{about['version']}.tgz"
    packed.write_bytes(pack({f"{about['name']}/{name}": file for name, file in files.items()}, epoch))
    return packed


def write_layout(packed: Path, about: dict[str, Any], target: Path, epoch: int) -> Path:
    """Write a packed chart as an OCI image layout into the folder `target`, with the blobs that `helm push` uploads.

    `about` is the content of Chart.yaml. The tag is the version, with `_` in the place of `+`, as Helm writes tags.
    """
    config = _json(about)
    annotations = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.description": about["description"],
        "org.opencontainers.image.created": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _write_blob(target, CONFIG, config),
            "layers": [_write_blob(target, CONTENT, packed.read_bytes())],
            "annotations": annotations,
        }
    )
    listed = _write_blob(target, MANIFEST, manifest) | {
        "annotations": {"org.opencontainers.image.ref.name": str(about["version"]).replace("+", "_")}
    }
    (target / "index.json").write_bytes(_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [listed]}))
    (target / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return target


def read_about(packed: Path) -> dict[str, Any]:
    """The content of Chart.yaml in a packed chart."""
    (text,) = (file.data for name, file in unpack(packed.read_bytes()).items() if name.endswith("/Chart.yaml"))
    about: dict[str, Any] = YAML(typ="safe").load(text)
    return about


def _write_blob(layout: Path, media_type: str, data: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(data).hexdigest()
    path = layout / "blobs" / "sha256" / digest
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
