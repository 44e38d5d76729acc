"""MirrorMaker 2 and twinlog, each as its users start it: from a file, or as a worker that is given connectors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import javaproperties

from conformance.call import Json
from conformance.corpus.case import Case
from conformance.corpus.scene import Scene
from conformance.meant import NEWER
from conformance.sending import send
from conformance.worker import Order, TwinlogWorker, Worker, kafka
from harness.child import Child
from harness.connect.mm2 import MirrorMaker2
from harness.errors import HarnessError
from harness.jvm.jars import classpath_argument
from harness.jvm.java import java_command
from harness.ports import claim_port, release_port
from harness.wait import wait_for

READY_S = 120.0
_WORKER_ENDED = "Uncaught exception in herder work thread, exiting"
"""MirrorMaker 2's process stays when the worker of a flow in it ends, and copies nothing more."""


_ONE_REPLICA = (
    *(f"{kind}.storage.replication.factor" for kind in ("config", "offset", "status")),
    *(f"{kind}.topic.replication.factor" for kind in ("checkpoints", "heartbeats", "offset-syncs")),
    "replication.factor",
)
_SECONDS = {
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
}
_QUICK = {**dict.fromkeys(_ONE_REPLICA, "1"), **_SECONDS, "consumer.poll.timeout.ms": "200"}
"""What a file gets that does not say it: a cluster of one broker, and intervals of a test."""

POLICY = """package com.amazonaws.kafka.samples;

public class CustomMM2ReplicationPolicy extends org.apache.kafka.connect.mirror.DefaultReplicationPolicy {
    private String source;

    @Override
    public void configure(java.util.Map<String, ?> props) {
        super.configure(props);
        source = (String) props.get("source.cluster.alias");
    }

    @Override
    public String formatRemoteTopic(String alias, String topic) {
        return topic;
    }

    @Override
    public String topicSource(String topic) {
        return source;
    }

    @Override
    public String upstreamTopic(String topic) {
        return null;
    }
}
"""


class System(Protocol):
    """One of the two that is being started with a case."""

    def start(self) -> None:
        """Start it, and hand over connectors. Raises HarnessError where it ends, or does not take a connector."""

    def require_alive(self) -> None:
        """Raises HarnessError where it has ended."""

    def stop(self) -> None:
        """End it in good order."""

    def kill(self) -> None:
        """End it, whatever it does."""

    @property
    def log(self) -> Path: ...


def mirror_maker_2(case: Case, scene: Scene, home: Path) -> System:
    """The real one: its dedicated process, or its connectors on a worker of Kafka's."""
    if case.shape == "connectors":
        return _Connectors(case, scene, home, kafka(NEWER)(Order("distributed", home)))
    more = [policy_classes(home / "classes")] if case.policy else []
    running = MirrorMaker2(_staged(case, scene), heap="384m", jit="quick", work_dir=home)
    place = running.process.command.index("-cp") + 1
    running.process.command[place] = ":".join([running.process.command[place], *map(str, more)])
    return _Dedicated(running.process)


def twinlog(case: Case, scene: Scene, home: Path) -> System:
    """`connect-mirror-maker` or `twinlog connect` of this checkout."""
    if case.shape == "connectors":
        return _Connectors(case, scene, home, TwinlogWorker(Order("distributed", home)))
    home.mkdir(parents=True, exist_ok=True)
    file = home / "mm2.properties"
    file.write_bytes(_staged(case, scene).encode("latin-1"))
    return _Dedicated(Child("twinlog", [sys.executable, "-m", "twinlog.connect_mirror_maker", str(file)], home / "log"))


def policy_classes(home: Path) -> Path:
    """A folder with the class of a policy that keeps names, compiled; it is called as the best known one is."""
    source = home / "com" / "amazonaws" / "kafka" / "samples" / "CustomMM2ReplicationPolicy.java"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(POLICY)
    compiler = Path(java_command()).with_name("javac")
    subprocess.run([compiler, "-cp", classpath_argument(), str(source)], check=True, capture_output=True, timeout=120)
    return home


def _staged(case: Case, scene: Scene) -> str:
    return staged(scene.put_in(case.text()))


def staged(text: str) -> str:
    """A file with addresses, and behind it what it does not say and one broker and a short test need."""
    said = javaproperties.loads(text)
    aliases = [alias.strip() for alias in said.get("clusters", "").split(",")]
    more = dict(_QUICK)
    if said.get("emit.offset-syncs.enabled") == "false":
        # MirrorMaker 2 refuses both at once.
        del more["offset-syncs.topic.replication.factor"]
    for alias in aliases:
        more |= {f"{alias}.offset.flush.interval.ms": "1000", f"{alias}.offset.storage.partitions": "3"}
    # A file may say it below an alias or for a flow, which wins or is the same.
    lines = [f"{key} = {value}\n" for key, value in more.items() if key not in said]
    return text + "\n\n" + "".join(lines)


class _Dedicated:
    """A process that a file tells all."""

    def __init__(self, process: Child) -> None:
        self._process = process

    def start(self) -> None:
        self._process.start()

    def require_alive(self) -> None:
        self._process.require_alive()
        if _WORKER_ENDED in self.log.read_text(errors="replace"):
            raise HarnessError(f"a worker in the process has ended ({self.log})")

    def stop(self) -> None:
        self._process.terminate(60)

    def kill(self) -> None:
        self._process.kill()

    @property
    def log(self) -> Path:
        return self._process.log


class _Connectors:
    """A worker, and connectors over its REST API."""

    def __init__(self, case: Case, scene: Scene, home: Path, worker: Worker) -> None:
        self._case = case
        self._scene = scene
        self._worker = worker
        self._port = claim_port()
        self._names: list[str] = []
        self._url = ""

    def start(self) -> None:
        target = self._case.copies[0].target
        lines = {
            "bootstrap.servers": self._scene.clusters[target].bootstrap,
            "group.id": "mm2-connect",
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "listeners": f"http://127.0.0.1:{self._port}",
            "offset.flush.interval.ms": "1000",
            "offset.storage.partitions": "3",
            "plugin.discovery": "service_load",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.topic": f"mm2-{kind}s.connect" for kind in ("config", "offset")},
            "status.storage.topic": "mm2-status.connect",
        }
        own = self._scene.put_in(self._case.worker())
        text = "".join(f"{key} = {value}\n" for key, value in lines.items() if not re.search(rf"^{key}\s*=", own, re.M))
        self._url = self._worker.start(text + own)
        wait_for(self._healthy, READY_S, "the worker is in its group")
        for file, body in self._case.connectors().items():
            self._hand_over(file, json.loads(self._scene.put_in(body)))

    def require_alive(self) -> None:
        for name in self._names:
            try:
                answer = send(self._url, "GET", f"/connectors/{quote(name, safe='')}/status")
            except (OSError, HTTPException) as error:
                raise HarnessError(f"the worker does not answer: {error}") from error
            body = answer.body
            assert isinstance(body, Mapping)
            states = [body.get("connector", {}), *body.get("tasks", [])]
            failed = [one.get("trace", "") for one in states if one.get("state") == "FAILED"]
            if failed:
                raise HarnessError(f"{name} is FAILED: {failed[0].splitlines()[0]}")

    def stop(self) -> None:
        self._worker.stop()
        release_port(self._port)

    def kill(self) -> None:
        self._worker.kill()

    @property
    def log(self) -> Path:
        return self._worker.log

    def _healthy(self) -> bool:
        try:
            return send(self._url, "GET", "/connectors").status == 200
        except (OSError, HTTPException):
            return False

    def _hand_over(self, file: str, body: Json) -> None:
        assert isinstance(body, dict)
        inner = body.get("config")
        if isinstance(inner, dict):
            answer = send(self._url, "POST", "/connectors", {**body, "config": {**quick_connector(inner), **inner}})
            name = str(body["name"])
        else:
            name = file
            whole = {**quick_connector(body), **body}
            answer = send(self._url, "PUT", f"/connectors/{quote(name, safe='')}/config", whole)
        if answer.status not in {200, 201}:
            raise HarnessError(f"{name} is answered {answer.status}: {answer.body}")
        self._names.append(name)


def quick_connector(config: Mapping[str, Json]) -> dict[str, Json]:
    """What a connector does not say, and one broker and a short test need."""
    return {
        key: value for key, value in _QUICK.items() if key not in config and not key.startswith(("config.", "status."))
    }
