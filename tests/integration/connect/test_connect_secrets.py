"""Secrets of a worker and of its connectors are nowhere but where somebody wrote them: everything else is searched.

They are passwords of brokers, literal ones and ones behind `${file:…}`, of key stores and of users of the REST API. A
flow works, and flows fail, with everything logged that can be.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import stat
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from harness.certificates import authority
from harness.cluster import PLAIN_LOGIN, KafkaCluster
from harness.consume import consume
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker, connector, path_of

DEADLINE_S = 180.0
STORE, KEY, REST, WRONG, LOST = "store-5ecret", "key-5ecret", "rest-5ecret", "wrong-5ecret", "lost-5ecret"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension"
LOGIN = {"Authorization": "Basic " + base64.b64encode(f"operator:{REST}".encode()).decode()}


class Stage:
    """One worker with secrets of every kind, and what it answered."""

    def __init__(self, source: KafkaCluster, target: KafkaCluster, home: Path, group: str) -> None:
        self.source, self.target, self.home = source, target, home
        self.work = home / "work"
        self.events = home / "events"
        for folder in (self.work, self.events):
            folder.mkdir()
        self.ui = claim_port()
        self.https = claim_port()
        self.group = group
        self.answers: list[str] = []
        self.submitted: list[str] = []
        """Answers that hold configurations as they were submitted."""
        self.literal = {source.users["mirrormaker"], WRONG, KEY, LOST}
        """Written into configurations as they are."""
        self.referenced = {target.users["mirrormaker"], target.users["connect"], STORE, REST}
        """Written into files that configurations or the worker's file name."""
        certified = authority()
        self._tls = ssl.create_default_context(cadata=certified.pem)
        certified.issue("worker", ["127.0.0.1"]).write_pkcs12(home / "worker.p12", STORE)
        (home / "secrets.properties").write_text(
            f"store={STORE}\nconnect={_jaas(target, 'connect')}\nmirrormaker={_jaas(target, 'mirrormaker')}\n"
        )
        (home / "users.properties").write_text(f"operator={REST}\n")
        (home / "jaas.conf").write_text(
            f'KafkaConnect {{\n {EXTENSION}.PropertyFileLoginModule required file="{home}/users.properties";\n}};\n'
        )
        self.worker = ConnectWorker(
            home / "worker",
            target,
            group,
            self._settings(),
            env={
                "KAFKA_OPTS": f"-Djava.security.auth.login.config={home}/jaas.conf",
                "TMPDIR": str(self.work),
                "SPARK_LOCAL_DIRS": str(self.work),
            },
            arguments=_confs(
                {
                    "spark.ui.port": self.ui,
                    "spark.eventLog.enabled": "true",
                    "spark.eventLog.dir": self.events,
                    "spark.eventLog.compress": "false",
                }
            ),
            headers=LOGIN,
        )

    def close(self) -> None:
        self.worker.close()
        for port in (self.ui, self.https):
            release_port(port)

    def reference(self, key: str) -> str:
        """What stands for a value in the file of secrets."""
        return f"${{file:{self.home}/secrets.properties:{key}}}"

    def _settings(self) -> dict[str, str]:
        return {
            "listeners": f"<here>,https://127.0.0.1:{self.https}",
            **self.target.java_settings("connect"),
            "sasl.jaas.config": self.reference("connect"),
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "rest.extension.classes": f"{EXTENSION}.BasicAuthSecurityRestExtension",
            "listeners.https.ssl.keystore.location": f"{self.home}/worker.p12",
            "listeners.https.ssl.keystore.type": "PKCS12",
            "listeners.https.ssl.keystore.password": self.reference("store"),
            "listeners.https.ssl.key.password": self.reference("store"),
        }

    def config(self, kind: str, alias: str, topic: str, **more: str) -> dict[str, str]:
        """A connector with a literal password at the source, and a reference at the target."""
        return {
            **connector(kind, self.source, self.target, f"{alias}->t", topics=topic),
            **self.source.java_settings("mirrormaker", "source.cluster."),
            **{
                f"{prefix}{key}": value
                for prefix in ("target.cluster.", "producer.override.")
                for key, value in {
                    **self.target.java_settings("mirrormaker"),
                    "sasl.jaas.config": self.reference("mirrormaker"),
                }.items()
            },
            "source.cluster.ssl.key.password": KEY,
            # Nobody knows this key, and nobody can know that its value is none to show.
            "source.cluster.sasl.jaas.confg": LOST,
            **more,
        }

    def ask(self, method: str, path: str, body: Any = None, *, holds_config: bool = False) -> Any:
        status, answer = self.worker.ask(method, path, body)
        text = json.dumps(answer)
        (self.submitted if holds_config else self.answers).append(f"{method} {path} {status} {text}")
        return answer

    def ask_raw(self, path: str, data: bytes, headers: Mapping[str, str]) -> int:
        """A request as bytes, to the listener with TLS."""
        url = f"https://127.0.0.1:{self.https}{path}"
        request = urllib.request.Request(url, data, dict(headers), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=100, context=self._tls) as answer:
                status, text = int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        self.answers.append(f"POST {path} {status} {text}")
        return status


def _jaas(cluster: KafkaCluster, user: str) -> str:
    return f'{PLAIN_LOGIN} username="{user}" password="{cluster.users[user]}";'


def _confs(conf: Mapping[str, object]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


@pytest.fixture
def stage(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, new_name: Callable[[str], str]
) -> Iterator[Stage]:
    made = Stage(*clusters, tmp_path, new_name("workers"))
    yield made
    made.close()


def processes(pid: int) -> list[psutil.Process]:
    worker = psutil.Process(pid)
    return [worker, *worker.children(recursive=True)]


def of_processes(pid: int) -> Iterator[tuple[str, str]]:
    """What anybody can see of the processes: their titles, command lines and environments."""
    for process in processes(pid):
        with suppress(psutil.Error, OSError):
            yield f"title of {process.pid}", process.name()
            yield f"command of {process.pid}", " ".join(process.cmdline())
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
            yield f"environment of {process.pid}", environment.decode(errors="replace")


def of_pages(port: int) -> Iterator[tuple[str, str]]:
    """Spark's pages and its REST API, followed one step from each."""
    base = f"http://127.0.0.1:{port}"
    application = json.loads(_read(f"{base}/api/v1/applications"))[0]["id"]
    api = f"{base}/api/v1/applications/{application}"
    pages = [
        *(f"{base}/{page}/" for page in ("environment", "jobs", "stages", "storage", "executors", "StreamingQuery")),
        *(f"{api}/{page}" for page in ("environment", "jobs", "stages", "allexecutors", "sql")),
        f"{base}/executors/threadDump/?executorId=driver",
    ]
    for page in pages:
        with suppress(urllib.error.HTTPError):
            yield page, _read(page)


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=100) as answer:
        return str(answer.read().decode(errors="replace"))


def of_files(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.rglob("*")):
        with suppress(OSError):
            if file.is_file():
                yield str(file), file.read_bytes().decode(errors="replace")


def of_topic(cluster: KafkaCluster, topic: str) -> Iterator[tuple[str, str]]:
    for record in consume(cluster, topic):
        yield f"{topic} {record.offset}", f"{record.key!r} {record.value!r} {record.headers!r}"


def test_secrets_are_nowhere_else(stage: Stage, topic_name: str, new_name: Callable[[str], str]) -> None:
    worker, alias = stage.worker, new_name("s")
    create_topic(stage.source, topic_name)
    produce(stage.source, topic_name, numbered(10))
    worker.start()
    for logger in ("root", "org.apache.kafka", "org.apache.kafka.clients", "kafka", "py4j", "asyncio", "uvicorn"):
        stage.ask("PUT", f"/admin/loggers/{logger}", {"level": "TRACE"})
    secret = stage.reference("mirrormaker")

    # What is wrong is told without it.
    fails: dict[str, dict[str, str]] = {
        "of another type": {"tasks.max": secret, "refresh.topics.interval.seconds": stage.reference("store")},
        "no login": {"target.cluster.sasl.jaas.config": f"{PLAIN_LOGIN} password={LOST}"},
        "a secret for a protocol": {"source.cluster.security.protocol": secret},
        "no class": {"replication.policy.class": stage.reference("store")},
        "a store that is none": {
            "source.cluster.security.protocol": "SASL_SSL",
            "source.cluster.ssl.keystore.location": f"{stage.home}/worker.p12",
            "source.cluster.ssl.keystore.password": WRONG,
        },
        "no such reference": {"target.cluster.sasl.jaas.config": stage.reference("nobody")},
    }
    for name, change in fails.items():
        config = {**stage.config("Source", alias, topic_name), **change, "name": name}
        found = stage.ask("PUT", "/connector-plugins/MirrorSourceConnector/config/validate", config)
        assert found["error_count"] >= 1, name
        stage.ask("PUT", f"{path_of(name)}/config", config)
        stage.ask("GET", path_of(name))
    broken = json.dumps({"name": "broken", "config": stage.config("Source", alias, topic_name)})
    json_headers = {"Content-Type": "application/json"}
    assert stage.ask_raw("/connectors", broken[:-2].encode(), {**json_headers, **LOGIN}) == 400
    assert stage.ask_raw("/connectors", b"{}", {**json_headers, "Authorization": f"Basic operator:{REST}"}) == 401
    wrong = "Basic " + base64.b64encode(f"operator:{WRONG}".encode()).decode()
    assert stage.ask_raw("/connectors", b"{}", {**json_headers, "Authorization": wrong}) == 401

    # One copies, one is refused by the source, and one by the target.
    kinds = {"good": "Source", "follows": "Checkpoint", "beats": "Heartbeat", "refused": "Source", "late": "Source"}
    wrong_login = f'{PLAIN_LOGIN} username="mirrormaker" password="{WRONG}";'
    changes = {
        "refused": {"source.cluster.alias": f"{alias}-2", "source.cluster.sasl.jaas.config": wrong_login},
        "late": {"source.cluster.alias": f"{alias}-3", "producer.override.sasl.jaas.config": wrong_login},
    }
    for name, kind in kinds.items():
        config = {**stage.config(kind, alias, topic_name), **changes.get(name, {})}
        stage.ask("PUT", f"{path_of(name)}/config", config, holds_config=True)
        validated = {**config, "name": name}
        stage.ask("PUT", f"/connector-plugins/Mirror{kind}Connector/config/validate", validated)
    worker.wait_for_state("good", "RUNNING", 1)
    remote = f"{alias}.{topic_name}"
    wait_for(
        lambda: remote in topics(stage.target) and len(consume(stage.target, remote)) == 10, DEADLINE_S, "it is copied"
    )
    wait_for(lambda: "authentication" in worker.log.lower(), DEADLINE_S, "the refused ones say so")
    wait_for(lambda: "Spark's tasks copy now" in worker.log, DEADLINE_S, "Spark is there")
    for name in kinds:
        stage.ask("GET", f"{path_of(name)}/status")
        stage.ask("GET", f"{path_of(name)}/topics")
        stage.ask("GET", f"{path_of(name)}/offsets")
        for path in ("", "/config", "/tasks"):
            stage.ask("GET", f"{path_of(name)}{path}", holds_config=True)
    for path in ("/", "/health", "/connectors", "/connectors?expand=status", "/admin/loggers", "/connector-plugins"):
        stage.ask("GET", path)
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        stage.ask("GET", f"/connector-plugins/Mirror{kind}Connector/config")
    stage.ask("GET", "/connectors?expand=info", holds_config=True)
    for name in stage.ask("GET", "/connectors"):
        stage.ask("GET", f"/ui/api/connector?name={quote(name, safe='')}")
    assert stage.ask("GET", "/ui/api/overview")["flows"]
    stage.ask("POST", "/connectors/refused/restart?includeTasks=true")

    every = stage.literal | stage.referenced
    processes_seen = processes(worker.process.pid)
    encoded = {base64.b64encode(f"operator:{REST}".encode()).decode()}
    places: list[tuple[str, str, set[str]]] = [
        *((text[:80], text, every | encoded) for text in stage.answers),
        *((text[:80], text, stage.referenced) for text in stage.submitted),
        *((where, text, every | encoded) for where, text in of_processes(worker.process.pid)),
        *((where, text, every) for where, text in of_pages(stage.ui)),
        *((where, text, stage.referenced) for where, text in of_topic(stage.target, f"{stage.group}-configs")),
        *((where, text, every) for where, text in of_topic(stage.target, f"{stage.group}-status")),
        *((where, text, every) for where, text in of_files(stage.work)),
    ]
    open_to_others = [
        path for path in stage.work.rglob("*") if path.is_file() and not closed(path, stage.work) and private(path)
    ]
    assert worker.process.terminate(60)
    places += [("log", worker.log, every | encoded)]
    events = list(of_files(stage.events))
    places += [(where, text, every) for where, text in events]
    assert events
    assert any("SparkListenerEnvironmentUpdate" in text for _, text in events)
    assert len([place for place in places if place[0].startswith("http")]) > 9
    # What is searched is what it is taken for.
    assert len(processes_seen) > 2
    assert "TRACE" in worker.log
    assert all(any(secret in text for text in stage.submitted) for secret in stage.literal)
    found = {(where, secret) for where, text, secrets in places for secret in secrets if secret in text}
    assert not found
    assert not open_to_others


def closed(path: Path, root: Path) -> bool:
    """Whether nobody else can open a file, because of its own rights or of a directory's above it."""
    above = [one for one in path.parents if root in one.parents]
    return any(one.exists() and not stat.S_IMODE(os.stat(one).st_mode) & 0o077 for one in (path, *above))


def private(path: Path) -> bool:
    """Whether a file of ours holds settings; JARs and shuffle files of Spark's do not."""
    return path.suffix in {".pem", ".json", ".properties", ".pickle", ".conf"}
