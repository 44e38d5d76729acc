"""A Kubernetes API server that runs each pod as a process of this machine: as much of one as Spark asks for executors.

It keeps pods by name, lists them by label, streams their changes, and starts what their first container wants. Volumes
are not mounted, images not pulled, and nothing is enforced.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).parents[2]
EXECUTOR = [sys.executable, str(ROOT / "scripts/image_executor.py")]
"""What `executor` is on the image's PATH."""

Pod = dict[str, Any]
_TERM = re.compile(r"([^\s=!]+)\s*(!=|==?|\bin\b|\bnotin\b)\s*(.*)")


class Kubernetes:
    """Use it as a context manager. `url` is the API server's, `pods` are all that were ever made, by name, `others` the
    objects of other kinds that somebody wanted. Without `starts` no pod's process is started.
    """

    def __init__(self, namespace: str, driver: str, *, starts: bool = True) -> None:
        self.namespace = namespace
        self.others: list[dict[str, Any]] = []
        self._starts = starts
        self.pods: dict[str, Pod] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.requests: list[str] = []
        """Method and path of each request."""
        self._version = 0
        self._watchers: list[queue.SimpleQueue[bytes | None]] = []
        self._lock = threading.RLock()
        self._logs = tempfile.TemporaryDirectory(prefix="twinlog-pods-")
        kubernetes = self

        class Handler(_Handler):
            server_of = kubernetes

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._keep({"metadata": {"name": driver, "labels": {}}, "spec": {}}, "Running")

    def __enter__(self) -> Kubernetes:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.put(None)
        with self._lock:
            left = list(self.running.values())
        for process in left:
            process.kill()
            process.wait()
        self._server.shutdown()
        self._server.server_close()
        self._logs.cleanup()

    def log(self, name: str) -> str:
        """What the pod wrote."""
        return (Path(self._logs.name) / name).read_text(errors="replace")

    def executors(self, phase: str | None = None) -> list[str]:
        """Names of the pods that Spark made, in order; of those in one phase only."""
        with self._lock:
            return [
                name
                for name, pod in self.pods.items()
                if "spark-role" in pod["metadata"]["labels"] and phase in (None, pod["status"]["phase"])
            ]

    def create(self, pod: Pod) -> Pod:
        """Keep a pod and start it."""
        with self._lock:
            kept = self._keep(pod, "Pending")
        if self._starts:
            self._start(kept)
        return kept

    def delete(self, name: str) -> Pod | None:
        """End the pod's process and forget it."""
        with self._lock:
            pod = self.pods.pop(name, None)
            process = self.running.pop(name, None)
            if pod is not None:
                self._tell("DELETED", pod)
        if process is not None:
            process.terminate()
            process.wait()
        return pod

    def selected(self, labels: str) -> list[Pod]:
        """The pods of a label selector: KEY=VALUE, KEY!=VALUE, KEY in (VALUES), KEY notin (VALUES)."""
        with self._lock:
            return [pod for pod in self.pods.values() if _matches(pod["metadata"].get("labels", {}), labels)]

    def watch(self) -> queue.SimpleQueue[bytes | None]:
        """Changes from now on, a line each."""
        watcher: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with self._lock:
            self._watchers.append(watcher)
        return watcher

    def _keep(self, pod: Pod, phase: str) -> Pod:
        meta = pod["metadata"]
        meta.update(uid=f"uid-{self._version + 1}", namespace=self.namespace, creationTimestamp=_now())
        meta.setdefault("labels", {})
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        self._set(pod, phase)
        self.pods[meta["name"]] = pod
        self._tell("ADDED", pod)
        return pod

    def _set(self, pod: Pod, phase: str, code: int | None = None) -> None:
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        ready = "True" if phase == "Running" else "False"
        pod["status"] = {
            "phase": phase,
            "startTime": _now(),
            "podIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": ready}],
        }
        if code is not None:
            ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
            pod["status"]["containerStatuses"] = [{"name": "executor", "ready": False, "state": ended}]

    def _tell(self, what: str, pod: Pod) -> None:
        line = json.dumps({"type": what, "object": pod}).encode() + b"\n"
        for watcher in self._watchers:
            watcher.put(line)

    def _start(self, pod: Pod) -> None:
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        scratch = Path(self._logs.name) / f"{name}.tmp"
        scratch.mkdir()
        with (Path(self._logs.name) / name).open("wb") as log:
            process = subprocess.Popen(
                EXECUTOR if container["args"] == ["executor"] else container["args"],
                env=_environment(pod, container, scratch),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        with self._lock:
            self.running[name] = process
            self._set(pod, "Running")
            self._tell("MODIFIED", pod)
        threading.Thread(target=self._await, args=(name, pod, process), daemon=True).start()

    def _await(self, name: str, pod: Pod, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        with self._lock:
            if self.pods.get(name) is pod:
                self._set(pod, "Succeeded" if code == 0 else "Failed", code if code >= 0 else 128 - code)
                self._tell("MODIFIED", pod)


class _Handler(BaseHTTPRequestHandler):
    server_of: Kubernetes
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._note()
        url, query = self._asked()
        if "watch" in query:
            self._stream()
        elif url.endswith("/pods"):
            items = self.server_of.selected(query.get("labelSelector", [""])[0])
            wanted = [one.partition("=")[2] for one in query.get("fieldSelector", []) if "metadata.name" in one]
            items = [pod for pod in items if not wanted or pod["metadata"]["name"] in wanted]
            meta = {"resourceVersion": "1"}
            self._answer(200, {"apiVersion": "v1", "kind": "PodList", "metadata": meta, "items": items})
        elif "/pods/" in url:
            self._answer_pod(self.server_of.pods.get(url.rpartition("/")[2]))
        else:
            self._answer(200, {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []})

    def do_POST(self) -> None:
        self._note()
        url, _ = self._asked()
        body = self._body()
        if not url.endswith("/pods"):
            self.server_of.others.append(body)
        self._answer(201, self.server_of.create(body) if url.endswith("/pods") else body)

    def do_PATCH(self) -> None:
        self._note()
        url, _ = self._asked()
        body = self._body()
        if "/pods/" in url:
            self._answer_pod(self.server_of.pods.get(url.rpartition("/")[2]))
        else:
            # What is applied by the server's side is there afterwards.
            self.server_of.others.append(body)
            self._answer(200, body)

    def do_DELETE(self) -> None:
        self._note()
        url, query = self._asked()
        self._body()
        if url.endswith("/pods"):
            for pod in self.server_of.selected(query.get("labelSelector", [""])[0]):
                self.server_of.delete(pod["metadata"]["name"])
            self._answer(200, {"kind": "Status", "status": "Success"})
        elif "/pods/" in url:
            self._answer_pod(self.server_of.delete(url.rpartition("/")[2]))
        else:
            self._answer(200, {"kind": "Status", "status": "Success"})

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query)

    def _note(self) -> None:
        self.server_of.requests.append(f"{self.command} {urlsplit(self.path).path}")

    def _body(self) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length)) if length else {}

    def _answer_pod(self, pod: Pod | None) -> None:
        missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        self._answer(404 if pod is None else 200, missing if pod is None else pod)

    def _answer(self, code: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        if self.headers.get("Upgrade"):
            # The client then takes a plain answer of lines.
            self._answer(503, {"kind": "Status", "code": 503, "message": "no web sockets here"})
            return
        watcher = self.server_of.watch()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (line := watcher.get()) is not None:
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            except OSError:
                return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def _environment(pod: Pod, container: Mapping[str, Any], scratch: Path) -> dict[str, str]:
    fields = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    ours = ("PATH", "JAVA_HOME", "HOME", "JDK_JAVA_OPTIONS")
    found = {name: os.environ[name] for name in ours if name in os.environ}
    for variable in container.get("env", ()):
        where = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[variable["name"]] = variable.get("value", "") if where is None else fields[where]
    # A volume of its own in a pod.
    return found | {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}


def _matches(labels: Mapping[str, str], selector: str) -> bool:
    for one in filter(None, _terms(selector)):
        found = _TERM.fullmatch(one.strip())
        if found is None:
            raise ValueError(f"no label selector that is known here: {one}")
        key, word, rest = found.groups()
        values = {value.strip() for value in rest.strip("()").split(",")}
        if (labels.get(key) in values) == (word in ("notin", "!=")):
            return False
    return True


def _terms(selector: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    terms, depth = [""], 0
    for character in selector:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            terms.append("")
        else:
            terms[-1] += character
    return terms


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
