"""The style sheet, the scripts and the icon of the console: files beside this module, read once at the start.

Each URL has a hash of the content, so that a browser keeps a file for a year, and asks for a changed file at once.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from twinlog.errors import RequestError

FOLDER = Path(__file__).parent / "static"

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_WEIGHT = re.compile(r"\s*q\s*=\s*([01](?:\.\d{0,3})?)\s*")
_YEAR = "public, max-age=31536000, immutable"


def takes_gzip(accepted: str) -> bool:
    """Whether a header `Accept-Encoding` takes gzip (RFC 9110, 12.5.3); an empty header takes plain answers only."""
    weights: dict[str, float] = {}
    for part in accepted.lower().split(","):
        name, _, parameters = part.partition(";")
        weight = _WEIGHT.fullmatch(parameters)
        weights[name.strip()] = 1.0 if weight is None else float(weight[1])
    return weights.get("gzip", weights.get("*", 0.0)) > 0


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with its content as it is and compressed; `digest` is a part of its URL."""

    name: str
    digest: str
    media_type: str
    plain: bytes
    packed: bytes

    @classmethod
    def read(cls, path: Path) -> Asset:
        """Read and compress a file."""
        plain = path.read_bytes()
        digest = hashlib.sha256(plain).hexdigest()[:16]
        return cls(path.name, digest, _TYPES[path.suffix], plain, gzip.compress(plain, 9, mtime=0))


class ConsoleAssets:
    """Serves the files of a folder below `root`; a name outside of the folder is unknown."""

    def __init__(self, root: str, folder: Path = FOLDER) -> None:
        found = [Asset.read(path) for path in sorted(folder.iterdir()) if path.suffix in _TYPES]
        self._assets: Mapping[str, Asset] = {one.name: one for one in found}
        self._root = root

    def url(self, name: str) -> str:
        """The URL of a file, with the hash of its content. Raises KeyError for an unknown name."""
        one = self._assets[name]
        return f"{self._root}/static/{one.digest}/{quote(name)}"

    @property
    def path(self) -> str:
        """The path of all files, with the parameters of a route."""
        return f"{self._root}/static/{{digest}}/{{name}}"

    def answer(self, request: Request) -> Response:
        """The file that the path names. Raises RequestError 404."""
        one = self._assets.get(request.path_params["name"])
        if one is None or one.digest != request.path_params["digest"]:
            raise RequestError(404, "The file is unknown.")
        packs = takes_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{one.digest}{"-gzip" if packs else ""}"'
        headers = {"Cache-Control": _YEAR, "ETag": tag, "Vary": "Accept-Encoding"}
        known = {text.strip().removeprefix("W/") for text in request.headers.get("if-none-match", "").split(",")}
        if tag in known:
            return Response(status_code=304, headers=headers)
        if packs:
            headers["Content-Encoding"] = "gzip"
        return Response(one.packed if packs else one.plain, headers=headers, media_type=one.media_type)
