"""Every endpoint: method, path, query, body, status and shape of the answer."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.unit.connect.fake_herder import SOURCE
from tests.unit.connect.serving import Client, afresh, serving
from twinlog.errors import RequestError
from twinlog.worker.connectors.model import Health, HealthStatus, TargetState

CONFIG = {"connector.class": SOURCE, "tasks.max": "2"}
STATUS = {
    "name": "c",
    "connector": {"state": "RUNNING", "worker_id": "worker:8083", "version": None},
    "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "worker:8083", "version": None}],
    "type": "source",
}
INFO = {"name": "c", "config": {**CONFIG, "name": "c"}, "tasks": [{"connector": "c", "task": 0}], "type": "source"}


@pytest.fixture
def client(running: Client) -> Client:
    return afresh(running, CONFIG)


def test_the_root_names_version_commit_and_cluster(client: Client) -> None:
    answer = client.get("/")
    assert answer.json == {"version": "4.3.0", "commit": "0123456789abcdef", "kafka_cluster_id": "cluster-id"}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(("health", "status"), [(Health.HEALTHY, 200), (Health.STARTING, 503), (Health.UNHEALTHY, 500)])
def test_the_health_has_a_status_of_its_own(client: Client, health: Health, status: int) -> None:
    client.herder.states = HealthStatus(health, "As it is.")
    answer = client.get("/health")
    assert (answer.status, answer.json) == (status, {"status": health.value, "message": "As it is."})


def test_connectors_are_listed_by_name(client: Client) -> None:
    assert client.get("/connectors").json == ["c"]


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ("expand=status", {"c": {"status": STATUS}}),
        ("expand=info", {"c": {"info": INFO}}),
        ("expand=status&expand=info", {"c": {"status": STATUS, "info": INFO}}),
        ("expand=info&expand=everything", {"c": {"info": INFO}}),
        ("expand=everything", {"c": {}}),
    ],
)
def test_connectors_are_listed_with_what_is_asked_for(client: Client, query: str, shape: object) -> None:
    assert client.get(f"/connectors?{query}").json == shape


def test_a_connector_that_is_deleted_meanwhile_is_left_out(client: Client) -> None:
    def lost(method: str) -> None:
        if method == "status":
            raise RequestError(404, "No status found for connector c")

    client.herder.before = lost
    assert client.get("/connectors?expand=status").json == {}
    assert client.get("/connectors/c/status").message == "No status found for connector c"


def test_a_list_is_made_anew_once_anything_in_it_may_have_changed(client: Client) -> None:
    client.herder.revised = 1
    path = "/connectors?expand=status&expand=info"
    first = client.get(path)
    client.herder.calls.clear()
    again = client.get(path)
    assert (again.content, again.headers["content-type"]) == (first.content, first.headers["content-type"])
    assert client.herder.calls == []
    assert list(client.get("/connectors?expand=info").json["c"]) == ["info"]
    client.herder.kept["d"] = {"name": "d"}
    assert list(client.get(path).json) == ["c"]
    client.herder.revised = 2
    assert list(client.get(path).json) == ["c", "d"]
    client.herder.kept["e"] = {"name": "e"}
    client.herder.revised = None
    assert list(client.get(path).json) == ["c", "d", "e"]


def test_a_hundred_connectors_are_expanded_in_one_call_of_a_thread(client: Client) -> None:
    for number in range(100):
        client.herder.kept[f"c{number}"] = CONFIG
    assert len(client.get("/connectors?expand=status&expand=info").json) == 101
    assert client.herder.calls.count("connectors") == 1


def test_a_connector_is_created(client: Client) -> None:
    answer = client.ask("POST", "/connectors", {"name": " a->b / ü ", "config": {"n": 3, "b": False, "f": 1.10}})
    assert answer.status == 201
    assert answer.json["config"] == {"n": "3", "b": "false", "f": "1.1", "name": "a->b / ü"}
    where = answer.headers["location"]
    assert where == f"{client.url}/connectors/{quote('a->b / ü', safe='')}"
    assert client.get(where.removeprefix(client.url)).json == answer.json


def test_numbers_stay_as_they_were_written(client: Client) -> None:
    body = b'{"a": 1.10, "b": 1e5, "c": 123456789012345678901234567890, "d": true}\n'
    assert client.ask("PUT", "/connectors/c/config", body).json["config"] == {
        "a": "1.10",
        "b": "1e5",
        "c": "123456789012345678901234567890",
        "d": "true",
        "name": "c",
    }


@pytest.mark.parametrize(
    ("state", "target"), [("running", TargetState.STARTED), ("Paused", TargetState.PAUSED), (None, TargetState.STARTED)]
)
def test_a_connector_is_created_in_a_state(client: Client, state: str | None, target: TargetState) -> None:
    assert client.ask("POST", "/connectors", {"name": "p", "config": {}, "initial_state": state}).status == 201
    assert client.herder.targets["p"] == target


def test_a_connector_is_not_created_twice(client: Client) -> None:
    answer = client.ask("POST", "/connectors", {"name": "c", "config": CONFIG})
    assert (answer.status, answer.message) == (409, "Connector c already exists")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b'{"name": "a", "config": {}} and more',
        b"{'name': 'a'}",
        b'{"name": "a"}',
        b'{"name": "a", "config": null}',
        b'{"name": "a", "config": []}',
        b'{"name": "a", "config": {"k": {"n": 1}}}',
        b'{"name": "a", "config": {"k": [1]}}',
        b'{"name": "a", "config": {"k": null}}',
        b'{"name": "a", "config": {"k": NaN}}',
        b'{"name": "a", "config": {"name": "b"}}',
        b'{"name": "a", "config": {}, "initial_state": "ASLEEP"}',
        b'{"name": "a", "config": {}, "initial_state": 3}',
        b'{"name": ["a"], "config": {}}',
        b'{"name": "a", "config": {}, "more": 1}',
        b'{"name": "a", "config": {"k": "\\ud800"}}',
        b'{"name": "a", "config": {"k": "\xff"}}',
        b"[" * 100_000,
        b'{"config": {}}',
    ],
)
def test_a_body_that_creates_nothing_is_the_clients_mistake(client: Client, body: bytes) -> None:
    answer = client.ask("POST", "/connectors", body, {"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.message
    assert list(client.herder.kept) == ["c"]


def test_no_error_repeats_a_value(client: Client) -> None:
    for body in (b'{"name": "a", "config": {"password": ["s3cret"]}}', b'{"password": "s3cret", "x": s3cret'):
        assert b"s3cret" not in client.ask("POST", "/connectors", body).content


def test_a_connector_is_read(client: Client) -> None:
    assert client.get("/connectors/c").json == INFO
    assert client.get("/connectors/c/config").json == INFO["config"]
    assert client.get("/connectors/c/status").json == STATUS


def test_a_failure_is_in_the_status(client: Client) -> None:
    client.herder.failed = "Why it failed."
    assert client.get("/connectors/c/tasks/0/status").json == {
        "id": 0,
        "state": "FAILED",
        "worker_id": "worker:8083",
        "trace": "Why it failed.",
        "version": None,
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/connectors/x"),
        ("GET", "/connectors/x/config"),
        ("GET", "/connectors/x/status"),
        ("GET", "/connectors/x/tasks"),
        ("GET", "/connectors/x/tasks-config"),
        ("GET", "/connectors/x/tasks/0/status"),
        ("GET", "/connectors/c/tasks/7/status"),
        ("GET", "/connectors/c/tasks/one/status"),
        ("GET", "/connectors/c/tasks/99999999999/status"),
        ("GET", "/connectors/x/offsets"),
        ("PUT", "/connectors/x/pause"),
        ("PUT", "/connectors/x/resume"),
        ("PUT", "/connectors/x/stop"),
        ("POST", "/connectors/x/restart"),
        ("POST", "/connectors/c/tasks/7/restart"),
        ("DELETE", "/connectors/x"),
        ("DELETE", "/connectors/x/offsets"),
        ("GET", "/connector-plugins/x/config"),
        ("GET", "/admin/loggers/nobody.has.it"),
        ("GET", "/nowhere"),
        ("GET", "/connectors//config"),
    ],
)
def test_what_is_not_there(client: Client, method: str, path: str) -> None:
    answer = client.ask(method, path)
    assert answer.status == 404
    assert answer.message


def test_a_configuration_is_replaced(client: Client) -> None:
    answer = client.ask("PUT", "/connectors/c/config", {"name": "c", "k": "v"})
    assert (answer.status, answer.json["config"]) == (200, {"name": "c", "k": "v"})
    assert "location" not in answer.headers
    assert client.ask("PUT", "/connectors/c/config", {"name": "d"}).status == 400
    assert client.ask("PUT", "/connectors/c/config", {"k": None}).status == 400


def test_a_configuration_is_changed_in_parts(client: Client) -> None:
    answer = client.ask("PATCH", "/connectors/c/config", {"tasks.max": None, "more": 1})
    assert (answer.status, answer.json["config"]) == (200, {"connector.class": SOURCE, "more": "1", "name": "c"})


def test_a_connector_is_deleted(client: Client) -> None:
    answer = client.ask("DELETE", "/connectors/c")
    assert (answer.status, answer.content) == (204, b"")
    assert client.ask("DELETE", "/connectors/c").status == 404


def test_tasks_have_their_configurations(client: Client) -> None:
    config = INFO["config"]
    assert client.get("/connectors/c/tasks").json == [{"id": {"connector": "c", "task": 0}, "config": config}]
    assert client.get("/connectors/c/tasks-config").json == {"c-0": config}


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 204), ("?includeTasks=false&onlyFailed=maybe", 204), ("?includeTasks=TRUE", 202), ("?onlyFailed=true", 202)],
)
def test_a_connector_is_restarted(client: Client, query: str, status: int) -> None:
    answer = client.ask("POST", f"/connectors/c/restart{query}")
    assert answer.status == status
    assert not answer.content if status == 204 else answer.json["connector"]["state"] == "RESTARTING"


def test_a_task_is_restarted(client: Client) -> None:
    assert client.ask("POST", "/connectors/c/tasks/0/restart").status == 204


@pytest.mark.parametrize(
    ("verb", "status", "target"),
    [("pause", 202, TargetState.PAUSED), ("resume", 202, TargetState.STARTED), ("stop", 204, TargetState.STOPPED)],
)
def test_what_a_connector_is_to_be(client: Client, verb: str, status: int, target: TargetState) -> None:
    answer = client.ask("PUT", f"/connectors/c/{verb}")
    assert (answer.status, answer.content) == (status, b"")
    assert client.herder.targets["c"] == target


def test_offsets_are_altered_read_and_reset(client: Client) -> None:
    first = {"partition": {"topic": "t", "partition": 3}, "offset": {"offset": 7}}
    again = {"partition": {"partition": 3, "topic": "t"}, "offset": {"offset": 12345678901234567890}}
    gone = {"partition": {"topic": "u", "partition": 0}, "offset": None}
    answer = client.ask("PATCH", "/connectors/c/offsets", {"offsets": [first, gone, again]})
    assert answer.json == {"message": "The offsets for this connector have been altered successfully"}
    assert client.get("/connectors/c/offsets").json == {"offsets": [again, gone]}
    assert client.ask("DELETE", "/connectors/c/offsets").status == 200
    assert client.get("/connectors/c/offsets").json == {"offsets": []}


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"{}",
        b'{"offsets": null}',
        b'{"offsets": []}',
        b'{"offsets": {}}',
        b'{"offsets": [null]}',
        b'{"offsets": [{}]}',
        b'{"offsets": [{"partition": null}]}',
        b'{"offsets": [{"partition": "t"}]}',
        b'{"offsets": [{"partition": {"a": 1}, "offset": 3}]}',
        b'{"offsets": [{"partition": {"a": 1e999}}]}',
        b'{"offsets": [{"partition": {"a": 1}, "more": 1}]}',
        b'{"offsets": [{"partition": {"a": ' + b"9" * 5000 + b"}}]}",
        b'{"offsets": [{"partition": {"a": ' + b"[" * 400 + b"]" * 400 + b"}}]}",
    ],
)
def test_offsets_that_are_none(client: Client, body: bytes) -> None:
    assert client.ask("PATCH", "/connectors/c/offsets", body).status == 400
    assert not client.herder.stored


def test_topics_are_listed_and_forgotten(client: Client) -> None:
    assert client.get("/connectors/c/topics").json == {"c": {"topics": ["a.t", "heartbeats"]}}
    assert client.get("/connectors/x/topics").json == {"x": {"topics": []}}
    assert client.ask("PUT", "/connectors/c/topics/reset").status == 202


def test_topics_may_not_be_tracked() -> None:
    with serving(topic_tracking=False) as client:
        assert client.get("/connectors/c/topics").message == "Topic tracking is disabled."
        assert client.ask("PUT", "/connectors/c/topics/reset").status == 403
    with serving(topic_tracking_reset=False) as client:
        assert client.get("/connectors/c/topics").status == 200
        assert client.ask("PUT", "/connectors/c/topics/reset").message == "Topic tracking reset is disabled."


def test_plugins_and_their_keys(client: Client) -> None:
    source = {"class": SOURCE, "type": "source", "version": "4.3.0"}
    assert client.get("/connector-plugins").json == [source]
    converter = {"class": "org.apache.kafka.connect.converters.ByteArrayConverter", "type": "converter"}
    assert client.get("/connector-plugins?connectorsOnly=no").json == [source, converter]
    (key,) = client.get("/connector-plugins/MirrorSourceConnector/config").json
    assert (key["name"], key["order"], key["order_in_group"], key["dependents"]) == ("topics", 1, 1, ["groups"])


def test_a_configuration_is_validated(client: Client) -> None:
    path = "/connector-plugins/MirrorSourceConnector/config/validate"
    answer = client.ask("PUT", path, {"connector.class": "MirrorSource", "x": 1})
    assert (answer.status, answer.json["error_count"], answer.json["groups"]) == (200, 1, ["Common"])
    known, unknown = answer.json["configs"]
    assert known["definition"]["name"] == known["value"]["name"] == "topics"
    assert known["value"]["errors"] == ["Missing."]
    assert unknown == {
        "definition": None,
        "value": {"name": "x", "value": "1", "recommended_values": [], "errors": [], "visible": True},
    }
    assert client.ask("PUT", path, {"connector.class": "MirrorHeartbeat"}).status == 400
    assert client.ask("PUT", path, {}).status == 400


def test_a_body_for_the_other_way_to_create_says_which_that_is(client: Client) -> None:
    config = b'{"connector.class": "MirrorSourceConnector"}'
    answer = client.ask("POST", "/connectors", config, {"Content-Type": "application/json"})
    assert (answer.status, "belongs into 'config', beside 'name'" in str(answer.message)) == (400, True)
    wrapped = b'{"name": "a", "config": ' + config + b"}"
    answer = client.ask("PUT", "/connectors/a/config", wrapped, {"Content-Type": "application/json"})
    assert (answer.status, "must be that alone" in str(answer.message)) == (400, True)
    assert list(client.herder.kept) == ["c"]
