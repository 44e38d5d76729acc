"""The container of a pod that Strimzi's operator makes, as a process: its files below a folder, and its variables.

Paths of the container get the folder in front, in files, variables and requests; nothing else differs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.child import Child
from harness.containers.strimzi import release as releases
from harness.containers.strimzi.release import Release, Resource

ROOT = Path(__file__).parents[3]
START_SCRIPT = ROOT / "scripts/image_strimzi.py"
_PATHS = re.compile(r"(?<![\w/.-])/(?=(?:opt/kafka|tmp|var/tmp)\b)")
RACK = "rack-7"


class PodContainer:
    """The container in `root`; `worker` is the program that is /opt/kafka/bin/connect-distributed.sh in it.

    `port` is the port of its REST API on loopback in the place of 8083; `more` are more lines of the target's config.
    """

    def __init__(
        self,
        root: Path,
        release: Release,
        resource: Resource,
        secrets: Mapping[str, Mapping[str, str]],
        worker: Path,
        *,
        port: int = 8083,
        api_server: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.kafka = root / "opt/kafka"
        self.tmp = root / "tmp"
        for folder in (self.kafka / "bin", self.kafka / "plugins", self.kafka / "custom-config", self.tmp):
            folder.mkdir(parents=True, exist_ok=True)
        (root / "var/tmp").mkdir(parents=True, exist_ok=True)
        for name in ("kafka_connect_run.sh", "kafka_mirror_maker_2_run.sh"):
            _link(self.kafka / name, START_SCRIPT)
        _link(self.kafka / "bin/connect-distributed.sh", worker)
        for path, secret in releases.mounts(release, resource).items():
            mounted = self.below(path)
            mounted.mkdir(parents=True, exist_ok=True)
            for key, value in secrets[secret].items():
                (mounted / key).write_text(value)
        if resource.rack == "topology":
            (self.kafka / "init").mkdir(exist_ok=True)
            (self.kafka / "init/rack.id").write_text(RACK)
        own = {"listeners": f"http://127.0.0.1:{port}"} if port != releases.REST_PORT else {}
        text = releases.worker_properties(release, resource)
        text = text.replace(f"rest.advertised.port={releases.REST_PORT}", f"rest.advertised.port={port}")
        lines = {**own, **(more or {})}
        self.write("kafka-connect.properties", text + "".join(f"{key}={value}\n" for key, value in lines.items()))
        self.write("log4j2.properties", releases.log4j2_properties(resource))
        if resource.metrics == "jmx":
            self.write("metrics-config.json", '{"lowercaseOutputName": true, "rules": []}')
        python = Path(sys.executable).parent
        self.environment = {
            "PATH": os.pathsep.join([str(python), str(self.kafka / "bin"), os.environ["PATH"]]),
            **{name: os.environ[name] for name in ("JAVA_HOME", "TWINLOG_CACHE", "LANG") if name in os.environ},
            "HOME": str(root / "home-that-is-missing"),
            "PYTHONUNBUFFERED": "1",
            "TWINLOG_POD_ROOT": str(root),
            **releases.environment(release, resource),
            **(api_server or {}),
            **({resource.rack: RACK} if resource.rack not in {None, "topology"} else {}),
        }
        # A container has only its own variables.
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        command = ["env", "-i", *variables, str(self.kafka / release.script)]
        self.process = Child(f"pod of Strimzi {release.name}", command, root / "pod.log")

    def below(self, path: Path) -> Path:
        """A path of the container on this machine."""
        return self.root / path.relative_to("/")

    def here(self, text: str) -> str:
        """A text with paths of the container, for example a connector's configuration, with the folder in front."""
        return _PATHS.sub(f"{self.root}/", text)

    def write(self, name: str, text: str) -> None:
        """Write an entry of the pod's ConfigMap, as Kubernetes swaps it."""
        path = self.kafka / "custom-config" / name
        coming = path.with_name(f".{name}")
        coming.write_text(self.here(text))
        coming.replace(path)

    @property
    def log(self) -> str:
        """What the container has printed."""
        return self.process.log.read_text(encoding="utf-8", errors="replace")


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)
