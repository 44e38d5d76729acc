"""An API server of Kubernetes that has Secrets and ConfigMaps, for accounts that may read some of them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.certificates import authority

TOKEN = "the-pods-token"
NAMESPACE = "kafka"


class SecretServer:
    """Serves `secrets` and `config_maps` of the namespace over https; a context manager.

    `allowed` are the Secrets that the pod's account may read, as the operator's Role names them; None means all.
    """

    def __init__(
        self,
        folder: Path,
        secrets: Mapping[str, Mapping[str, str]],
        config_maps: Mapping[str, Mapping[str, str]] | None = None,
        allowed: frozenset[str] | None = None,
    ) -> None:
        self.secrets = {name: dict(one) for name, one in secrets.items()}
        self.config_maps = {name: dict(one) for name, one in (config_maps or {}).items()}
        self.asked: list[str] = []
        """The paths of all requests with the right token."""
        root = authority("API authority")
        account = folder / "serviceaccount"
        account.mkdir(parents=True, exist_ok=True)
        (account / "token").write_text(TOKEN + "\n")
        (account / "ca.crt").write_text(root.pem)
        (account / "namespace").write_text(NAMESPACE)
        shown = root.issue("kubernetes", ["127.0.0.1"]).write_pem(folder / "api-server.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(shown)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    self.answer(401, {"kind": "Status", "code": 401})
                    return
                outer.asked.append(self.path)
                parts = self.path.strip("/").split("/")
                name = parts[-1]
                there = outer.secrets if parts[-2] == "secrets" else outer.config_maps
                if parts[:-2] != ["api", "v1", "namespaces", NAMESPACE] or (
                    allowed is not None and parts[-2] == "secrets" and name not in allowed
                ):
                    self.answer(403, {"kind": "Status", "code": 403})
                elif name not in there:
                    self.answer(404, {"kind": "Status", "code": 404})
                else:
                    encoded = {
                        key: base64.b64encode(value.encode()).decode() if there is outer.secrets else value
                        for key, value in there[name].items()
                    }
                    self.answer(200, {"metadata": {"name": name}, "data": encoded})

            def answer(self, code: int, body: Mapping[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing is printed."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.environment = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_address[1]),
            "KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN": str(account / "token"),
        }
        """The variables by which a pod's client finds this server."""

    def __enter__(self) -> SecretServer:
        threading.Thread(target=self._server.serve_forever, name="api-server", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
