"""What the images of a compose file have in them, as programs of this machine: Kafka's image, and our own.

`python -m harness.containers.images` is the first program of Kafka's image, `/etc/kafka/docker/run`: it makes a
broker's settings of the variables named KAFKA_ (Kafka class KafkaDockerWrapper), formats the disk, and becomes the
broker.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.broker import format_storage, to_properties
from harness.containers.compose_file import Service
from harness.errors import HarnessError
from harness.jvm.command import jvm_command
from harness.jvm.jars import KAFKA_VERSION
from harness.jvm.tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, TOPICS

CONFIGS = "kafka.admin.ConfigCommand"
ROOT = Path(__file__).resolve().parents[2]
RENAMED = {"--whitelist": "--include"}
"""Options that Kafka's tools no longer know, and their names since Kafka 4.0."""
_NO_SETTINGS = {"KAFKA_VERSION", "KAFKA_OPTS", "KAFKA_JMX_PORT", "KAFKA_JMX_HOSTNAME"}


def programs(service: Service) -> dict[str, list[str]] | None:
    """Commands by their paths in the image of a service; None for an image whose programs are not here."""
    if service.image.startswith("apache/kafka:"):
        tools = {
            "topics": TOPICS,
            "configs": CONFIGS,
            "console-consumer": CONSOLE_CONSUMER,
            "console-producer": CONSOLE_PRODUCER,
        }
        return {
            "/etc/kafka/docker/run": [sys.executable, "-m", "harness.containers.images"],
            **{f"/opt/kafka/bin/kafka-{name}.sh": jvm_command("128m", "quick", main) for name, main in tools.items()},
        }
    if service.build is not None:
        places = {"/opt/kafka/bin/connect-distributed.sh", "/bin/twinlog"}
        return {path: [str(Path(sys.executable).with_name(Path(path).name))] for path in sorted(places)}
    return None


def broker_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that variables named KAFKA_ stand for: `_` is a dot, `__` an underscore, `___` a dash."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", ".").replace("...", "-").replace("..", "_"): value
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in _NO_SETTINGS
    }


def main() -> None:
    """Become the broker that the environment describes. Raises HarnessError when it has no CLUSTER_ID."""
    settings = broker_settings(os.environ)
    if "CLUSTER_ID" not in os.environ:
        raise HarnessError("CLUSTER_ID is not set.")
    data = Path(settings["log.dirs"])
    if not (data / "meta.properties").exists():
        format_storage(data, os.environ["CLUSTER_ID"], settings["node.id"], KAFKA_VERSION)
    file = data.with_name("server.properties")
    file.write_text(to_properties(settings), encoding="utf-8")
    java, *rest = jvm_command("384m", "quick", "kafka.Kafka")
    os.execv(java, [java, *shlex.split(os.environ.get("KAFKA_OPTS", "")), *rest, str(file)])


if __name__ == "__main__":
    main()
