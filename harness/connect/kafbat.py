"""The requests of kafbat's UI to a Connect worker, in its order, and the checks by which it reads the answers.

Read from kafbat/kafka-ui v1.5.0 (commit afc9c918e13c4422268a3a5b7933c7b448746c82 of 2026-04-20): its classes
KafkaConnectService, RetryingKafkaConnectClient and KafkaConnectMapper, and the client that its build generates from
contract/src/main/resources/swagger/kafka-connect-api.yaml. The shapes below have the fields and types of that file. A
field may be missing or null, except those that the classes use without a look. A field that the file lacks is ignored,
and a word that an enumeration lacks makes the whole answer unreadable.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from harness.errors import HarnessError

VERSION = "1.5.0"
REQUEST_S = 100.0
MAX_RETRIES, RETRIES_DELAY_S = 5, 0.2
"""RetryingKafkaConnectClient: after 500 with the word of a rebalance, and after 409 except to the requests that create,
change or resume a connector: a user of the UI reads that 409."""

REBALANCE = "Request cannot be completed because a rebalance is expected"
AGENT = "ReactorNetty/1.2.16"

Action = Literal["RESTART", "RESTART_ALL_TASKS", "RESTART_FAILED_TASKS", "PAUSE", "STOP", "RESUME"]
Shape = Callable[[Any, str], Iterator[str]]
"""Yields a line for each part of a value that kafbat cannot read, with its place."""


class KafbatError(HarnessError):
    """An answer that kafbat's UI cannot read."""


class RefusedByWorkerError(HarnessError):
    """An answer of 400 or more, with the message that kafbat shows to its user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status, self.message = status, message


# -- shapes


def of_type(kind: type, name: str) -> Shape:
    def check(value: Any, at: str) -> Iterator[str]:
        # For Python True is a number.
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            yield f"{at}: {value!r} is no {name}"

    return check


TEXT, WHOLE, TRUTH = of_type(str, "string"), of_type(int, "integer"), of_type(bool, "boolean")


def word(*words: str) -> Shape:
    """An enumeration: any other word fails (`fromValue` of the generated class)."""

    def check(value: Any, at: str) -> Iterator[str]:
        if value is not None and value not in words:
            yield f"{at}: {value!r} is none of {', '.join(words)}"

    return check


def listed(shape: Shape) -> Shape:
    def check(value: Any, at: str) -> Iterator[str]:
        if value is not None and not isinstance(value, list):
            yield f"{at}: {value!r} is no array"
        for number, one in enumerate(value if isinstance(value, list) else ()):
            yield from shape(one, f"{at}[{number}]")

    return check


def mapped(shape: Shape) -> Shape:
    """An object with names of any kind."""

    def check(value: Any, at: str) -> Iterator[str]:
        if value is not None and not isinstance(value, dict):
            yield f"{at}: {value!r} is no object"
        for name, one in (value if isinstance(value, dict) else {}).items():
            yield from shape(one, f"{at}.{name}")

    return check


def model(fields: Mapping[str, Shape], *used: str) -> Shape:
    """An object with these fields; the `used` ones are there, because the classes take them without a look."""

    def check(value: Any, at: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{at}: {value!r} is no object"
            return
        yield from (f"{at}.{name}: missing" for name in used if value.get(name) is None)
        for name, shape in fields.items():
            yield from shape(value.get(name), f"{at}.{name}")

    return check


def or_null(shape: Shape) -> Shape:
    """A key that the connector lacks has a value without a definition, with Kafka's worker too."""

    def check(value: Any, at: str) -> Iterator[str]:
        if value is not None:
            yield from shape(value, at)

    return check


CONFIG = mapped(lambda value, at: iter(()))
CLUSTER_INFO = model({"version": TEXT, "commit": TEXT, "kafka_cluster_id": TEXT}, "version")
TASK = model({"connector": TEXT, "task": WHOLE}, "task")
CONNECTOR = model(
    {"name": TEXT, "config": CONFIG, "tasks": listed(TASK), "type": word("source", "sink", "unknown")},
    *("name", "config", "type"),
)
TASK_STATES = ("RUNNING", "FAILED", "PAUSED", "RESTARTING", "UNASSIGNED")
TASK_STATUS = model({"id": WHOLE, "state": word(*TASK_STATES), "worker_id": TEXT, "trace": TEXT}, "id", "state")
STATUS = model(
    {
        "name": TEXT,
        "connector": model({"state": word(*TASK_STATES, "STOPPED"), "worker_id": TEXT, "trace": TEXT}, "state"),
        "tasks": listed(TASK_STATUS),
    },
    "connector",
)
EXPANDED = mapped(model({"info": CONNECTOR, "status": STATUS}, "info", "status"))
TASKS = listed(model({"id": TASK, "config": CONFIG}, "id"))
TOPICS = mapped(model({"topics": listed(TEXT)}, "topics"))
PLUGINS = listed(model({"class": TEXT}, "class"))
DEFINITION = model(
    {
        "name": TEXT,
        "type": word("BOOLEAN", "CLASS", "DOUBLE", "INT", "LIST", "LONG", "PASSWORD", "SHORT", "STRING"),
        "required": TRUTH,
        "default_value": TEXT,
        "importance": word("LOW", "MEDIUM", "HIGH"),
        "documentation": TEXT,
        "group": TEXT,
        "width": word("SHORT", "MEDIUM", "LONG", "NONE"),
        "display_name": TEXT,
        "dependents": listed(TEXT),
        "order": WHOLE,
    },
    "name",
)
VALUE = model(
    {"name": TEXT, "value": TEXT, "recommended_values": listed(TEXT), "errors": listed(TEXT), "visible": TRUTH},
    *("name", "errors"),
)
VALIDATION = model(
    {
        "name": TEXT,
        "error_count": WHOLE,
        "groups": listed(TEXT),
        "configs": listed(model({"definition": or_null(DEFINITION), "value": VALUE}, "value")),
    },
    *("error_count", "configs"),
)
ERROR = model({"error_code": WHOLE, "message": TEXT}, "message")


# -- requests


@dataclass(frozen=True, slots=True)
class KafbatExchange:
    """A request and the status of its answer."""

    method: str
    path: str
    status: int


@dataclass(slots=True)
class KafbatUi:
    """The backend of kafbat's UI with a single Connect worker. Each method is what a user of the UI, or its clock,
    makes it ask."""

    host: str
    port: int
    log: list[KafbatExchange] = field(default_factory=list)

    def scrape(self) -> dict[str, list[str]]:
        """Each half minute: the worker, its connectors, and their topics by connector (scrapeAllConnects)."""
        self._ask("GET", "/", CLUSTER_INFO)
        return {name: self._topics(name) for name in self._expanded()}

    def list_connectors(self) -> dict[str, tuple[str, str, int, list[str]]]:
        """The page of all connectors: class, state, tasks and topics of each (getAllConnectors)."""
        found = {}
        for name, one in self._expanded().items():
            info, status = one["info"], one["status"]
            numbers = [task["task"] for task in info["tasks"]]
            # Collectors.toMap fails for a number that comes twice.
            if len(set(numbers)) != len(numbers):
                raise KafbatError(f"{name} has tasks {numbers}")
            state = status["connector"]["state"]
            found[name] = info["config"]["connector.class"], state, len(status["tasks"]), self._topics(name)
        return found

    def show_connector(self, name: str) -> tuple[str, dict[str, Any]]:
        """The page of a connector: its state and its configuration (getConnector)."""
        found = self._ask("GET", path_of(name), CONNECTOR)
        self._topics(name)
        status = self._if_known(f"{path_of(name)}/status", STATUS)
        if status is None:
            return "UNASSIGNED", found["config"]
        failed = any(task["state"] == "FAILED" for task in status["tasks"] or ())
        return "TASK_FAILED" if failed else status["connector"]["state"], found["config"]

    def list_tasks(self, name: str) -> dict[int, str]:
        """The tasks of a connector by number, with their states (getConnectorTasks)."""
        found = {}
        for one in self._if_known(f"{path_of(name)}/tasks", TASKS) or ():
            number = one["id"]["task"]
            status = self._if_known(f"{path_of(name)}/tasks/{number}/status", TASK_STATUS)
            if status is not None:
                found[number] = status["state"]
        return found

    def show_config(self, name: str) -> dict[str, Any]:
        """The form of a connector's configuration."""
        found: dict[str, Any] = self._ask("GET", f"{path_of(name)}/config", CONFIG)
        return found

    def create_connector(self, name: str, config: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
        """The form of a new connector: a name that exists is refused by kafbat itself."""
        if name in self._expanded():
            raise RefusedByWorkerError(400, f"Connector with name {name} already exists")
        made = self._ask(
            "POST", "/connectors", CONNECTOR, {"name": name, "config": dict(config)}, again_after_conflict=False
        )
        return self.show_connector(made["name"])

    def change_config(self, name: str, config: Mapping[str, str]) -> dict[str, Any]:
        """The form of a configuration is sent."""
        path = f"{path_of(name)}/config"
        found: dict[str, Any] = self._ask("PUT", path, CONNECTOR, dict(config), again_after_conflict=False)
        return found

    def act(self, name: str, action: Action) -> None:
        """A button of a connector (updateConnectorState)."""
        path = path_of(name)
        if action == "RESTART":
            self._ask("POST", f"{path}/restart?includeTasks=false&onlyFailed=false")
        elif action in ("PAUSE", "STOP", "RESUME"):
            self._ask("PUT", f"{path}/{action.lower()}", again_after_conflict=action != "RESUME")
        else:
            for number, state in self.list_tasks(name).items():
                if action == "RESTART_ALL_TASKS" or state == "FAILED":
                    self._ask("POST", f"{path}/tasks/{number}/restart")

    def reset_offsets(self, name: str) -> None:
        self._ask("DELETE", f"{path_of(name)}/offsets")

    def delete_connector(self, name: str) -> None:
        self._ask("DELETE", path_of(name))

    def list_plugins(self) -> list[str]:
        """The classes for a new connector."""
        return [one["class"] for one in self._ask("GET", "/connector-plugins", PLUGINS)]

    def validate(self, plugin: str, config: Mapping[str, str]) -> tuple[int, dict[str, list[str]]]:
        """The number of mistakes of a configuration, and the mistakes by key."""
        path = f"/connector-plugins/{quote(plugin, safe='')}/config/validate"
        found = self._ask("PUT", path, VALIDATION, dict(config))
        values = (one["value"] for one in found["configs"])
        return found["error_count"], {one["name"]: one["errors"] for one in values if one["errors"]}

    def _if_known(self, path: str, shape: Shape) -> Any:
        """The answer, None for 404: a connector or a task has gone meanwhile."""
        try:
            return self._ask("GET", path, shape)
        except RefusedByWorkerError as error:
            if error.status != 404:
                raise
            return None

    def _expanded(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._ask("GET", "/connectors?expand=info&expand=status", EXPANDED)
        return found

    def _topics(self, name: str) -> list[str]:
        found = self._ask("GET", f"{path_of(name)}/topics", TOPICS)
        topics: list[str] = found[name]["topics"]
        return topics

    def _ask(
        self,
        method: str,
        path: str,
        shape: Shape | None = None,
        body: Any = None,
        *,
        again_after_conflict: bool = True,
    ) -> Any:
        """The body of an answer in its shape; a refusal for now is asked again as kafbat does."""
        for again in range(MAX_RETRIES + 1):
            status, kind, content = self._send(method, path, body, reads=shape is not None)
            self.log.append(KafbatExchange(method, path, status))
            if status < 400:
                return None if shape is None else require(shape, kind, content, f"{method} {path}")
            error = require(ERROR, kind, content, f"{method} {path} {status}")
            waits = (status == 409 and again_after_conflict) or (
                status == 500 and error["message"].lower() == REBALANCE.lower()
            )
            if not waits or again == MAX_RETRIES:
                raise RefusedByWorkerError(status, error["message"])
            time.sleep(RETRIES_DELAY_S)
        raise AssertionError

    def _send(self, method: str, path: str, body: Any, *, reads: bool) -> tuple[int, str, bytes]:
        headers = {"User-Agent": AGENT, "Accept": "application/json" if reads else "*/*"}
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self.host, self.port, timeout=REQUEST_S)
        try:
            connection.request(method, path, content, headers)
            with connection.getresponse() as answer:
                return answer.status, answer.getheader("Content-Type") or "", answer.read()
        finally:
            connection.close()


def require(shape: Shape, kind: str, content: bytes, of: str) -> Any:
    """The value of an answer; raises KafbatError for an answer that kafbat cannot read."""
    # Spring's reader takes this kind alone for JSON.
    if kind.partition(";")[0].strip() != "application/json":
        raise KafbatError(f"{of} has the content type {kind!r}")
    try:
        value = json.loads(content)
    except ValueError:
        raise KafbatError(f"{of} has a body that is no JSON: {content[:200]!r}") from None
    problems: Sequence[str] = list(shape(value, "body"))
    if problems:
        raise KafbatError("\n".join([f"{of}:", *problems]))
    return value


def path_of(name: str) -> str:
    """The path of a connector: Spring's URI builder encodes all but unreserved characters of a part."""
    return f"/connectors/{quote(name, safe='')}"
