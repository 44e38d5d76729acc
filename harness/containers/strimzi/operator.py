"""The requests of Strimzi's cluster operator to a worker's REST API, in its order, with the headers of its HTTP client.

Read from Strimzi's classes KafkaMirrorMaker2AssemblyOperator, AbstractConnectOperator and KafkaConnectApiImpl; see
`harness.containers.strimzi.release` for the versions. An answer that the operator would take for a failure raises
OperatorError.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from harness.containers.strimzi.release import Release
from harness.errors import HarnessError

State = Literal["running", "paused", "stopped"]
REQUEST_S = 100.0
H2C = {
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    "Upgrade": "h2c",
    "User-Agent": "Java-http-client/21.0.9",
}
"""Java's client offers HTTP/2 on an unencrypted connection."""


class OperatorError(HarnessError):
    """An answer with which the operator's reconciliation fails."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer."""

    method: str
    path: str
    status: int
    answer: Any


@dataclass(slots=True)
class Desired:
    """The operator's aims for a connector: its configuration with name and class, and its state."""

    config: Mapping[str, str]
    state: State | None = None
    restart: str | None = None
    """The options of strimzi.io/restart-connector, for example `includeTasks,onlyFailed`; None without it."""
    restart_task: int | None = None
    offsets: Literal["list", "alter", "reset"] | None = None
    """The value of strimzi.io/connector-offsets."""
    alter_to: Any = None
    """The offsets of the ConfigMap, for `alter`."""


@dataclass(slots=True)
class Operator:
    """The operator of a release beside a worker at `url`; `log` has all exchanges."""

    release: Release
    url: str
    log: list[Exchange] = field(default_factory=list)
    listed: dict[str, Any] = field(default_factory=dict)
    """The offsets that the operator wrote into ConfigMaps, by connector."""

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """One request, as Java's client sends it."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=REQUEST_S)
        headers = {**H2C, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, path.replace("->", "%2D%3E"), data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        found = json.loads(text) if text else None
        self.log.append(Exchange(method, path, answer.status, found))
        return answer.status, found

    def expect(self, method: str, path: str, *good: int, body: Any = None) -> Any:
        """A request whose answer has one of these statuses."""
        status, found = self.ask(method, path, body)
        if status not in good:
            raise OperatorError(f"{method} {path} was answered with {status}, {found}; expected {good}")
        return found

    def reconcile(self, desired: Mapping[str, Desired]) -> None:
        """Bring the connectors of the worker to `desired`, and delete the others, in the operator's order."""
        current = self.expect("GET", "/connectors", 200)
        for name in sorted(set(current) - set(desired)):
            self._delete(name)
        for name, one in desired.items():
            self._reconcile_one(name, one)

    def _delete(self, name: str) -> None:
        self._retried(409, lambda: self.ask("DELETE", f"/connectors/{name}"), 204)
        self._retried(200, lambda: self.ask("GET", f"/connectors/{name}/status"), 404)

    def _reconcile_one(self, name: str, one: Desired) -> None:
        path = f"/connectors/{name}"
        status, actual = self._retried(409, lambda: self.ask("GET", f"{path}/config"), 200, 404, most=6)
        if status == 404:
            self._create(name, one)
        elif dict(actual) != {**one.config, "name": name}:
            self.put_config(name, one)
        else:
            self._update_state(name, self.expect("GET", f"{path}/status", 200), one)
            self._manage_offsets(name, one)
            self._restart(name, one)
            self._status(name)
        self.expect("GET", f"{path}/topics", 200)

    def _create(self, name: str, one: Desired) -> None:
        if not self.release.creates_with_post:
            self.put_config(name, one)
            return
        body = {"name": name, "config": submitted(one.config)}
        if one.state is not None:
            body["initial_state"] = one.state.upper()
        self._retried(409, lambda: self.ask("POST", "/connectors", body), 201)
        self._status(name)

    def put_config(self, name: str, one: Desired) -> None:
        """Create a connector, or change its configuration, and then its state."""
        path = f"/connectors/{name}/config"
        self._retried(409, lambda: self.ask("PUT", path, submitted(one.config)), 200, 201)
        self._update_state(name, self._status(name), one)
        self.expect("GET", f"/connectors/{name}/status", 200)

    def _status(self, name: str) -> Any:
        return self._retried(404, lambda: self.ask("GET", f"/connectors/{name}/status"), 200)[1]

    def _update_state(self, name: str, status: Any, one: Desired) -> None:
        now, wanted = str(status["connector"]["state"]), (one.state or "running").upper()
        if now not in {"RUNNING", "PAUSED", "STOPPED", "FAILED"} or now == wanted:
            return
        if now == "FAILED" and wanted == "PAUSED":
            raise OperatorError(f"connector {name} cannot be paused since it is in failed state")
        if now == "FAILED" and wanted == "RUNNING":
            return
        word, code = {"RUNNING": ("resume", 202), "PAUSED": ("pause", 202), "STOPPED": ("stop", 204)}[wanted]
        self.expect("PUT", f"/connectors/{name}/{word}", code)

    def _manage_offsets(self, name: str, one: Desired) -> None:
        path = f"/connectors/{name}/offsets"
        if one.offsets == "list":
            self.listed[name] = self.expect("GET", path, 200)
        elif one.offsets is not None:
            state = self.expect("GET", f"/connectors/{name}/status", 200)["connector"]["state"]
            if state != "STOPPED":
                raise OperatorError(f"connector {name} is not in STOPPED state")
            method, body = ("PATCH", one.alter_to) if one.offsets == "alter" else ("DELETE", None)
            found = self.expect(method, path, 200, body=body)
            if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
                raise OperatorError(f"{method} {path} was answered with {found}; expected an object of strings")

    def _restart(self, name: str, one: Desired) -> None:
        if one.restart is not None:
            options = {option: str(option in one.restart).lower() for option in ("includeTasks", "onlyFailed")}
            query = "&".join(f"{option}={value}" for option, value in options.items())
            self.expect("POST", f"/connectors/{name}/restart?{query}", 202, 204)
        if one.restart_task is not None:
            self.expect("POST", f"/connectors/{name}/tasks/{one.restart_task}/restart", 202, 204)

    def _retried(self, again: int, ask: Callable[[], tuple[int, Any]], *good: int, most: int = 10) -> tuple[int, Any]:
        """Repeat a request while its answer has the status `again`, after 200 ms, 400 ms and so on."""
        pause_s = 0.2
        for _ in range(most):
            status, found = ask()
            if status in good:
                return status, found
            if status != again:
                raise OperatorError(f"answered with {status}, {found}; expected {good}; {self.log[-1]}")
            time.sleep(pause_s)
            pause_s *= 2
        raise OperatorError(f"still answered with {again}: {self.log[-1]}")


def submitted(config: Mapping[str, str]) -> dict[str, Any]:
    """A configuration as the operator submits it: without the name, and with a number in tasks.max."""
    found: dict[str, Any] = {key: value for key, value in config.items() if key != "name"}
    if "tasks.max" in found:
        found["tasks.max"] = int(found["tasks.max"])
    return found
