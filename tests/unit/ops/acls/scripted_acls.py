"""Files with logins, ACLs, and clusters that answer questions about rights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twinlog.clock import SYSTEM
from twinlog.config import load
from twinlog.errors import RefusedError
from twinlog.kafka.admin.topics import DescribedCluster, find_unlisted_topics
from twinlog.model.acls import Acl, AclOperation, AclPermissionType, PatternType, ResourceType
from twinlog.model.topics import DescribedTopic, Topic
from twinlog.model.types import TopicName
from twinlog.ops.acls.needs import NeededRight
from twinlog.ops.acls.resources import Resource
from twinlog.settings.client import ClientSettings
from twinlog.settings.flow import FlowSettings

HIDDEN = RefusedError("lacks DESCRIBE on the cluster")
LOGIN = """\
{alias}.security.protocol = SASL_PLAINTEXT
{alias}.sasl.mechanism = SCRAM-SHA-512
{alias}.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
  username="{user}" password="x";
"""


def write(folder: Path, *lines: str, logins: str = "") -> Path:
    path = folder / "mm2.properties"
    text = "clusters = east, west\neast.bootstrap.servers = e:9092\nwest.bootstrap.servers = w:9092\n"
    text += "east->west.enabled = true\nwest->east.emit.heartbeats.enabled = false\n"
    path.write_text(text + logins + "".join(f"{line}\n" for line in lines), "utf-8")
    return path


def flows(folder: Path, *lines: str, logins: str = "") -> list[FlowSettings]:
    return list(load(write(folder, *lines, logins=logins)).flows)


def right(name: str = "east.", pattern: PatternType = PatternType.PREFIXED) -> NeededRight:
    return NeededRight("west", "User:mirror", Resource(ResourceType.TOPIC, name, pattern), AclOperation.DESCRIBE)


def acl(name: str, operation: AclOperation, **more: object) -> Acl:
    fields = {"principal": "User:mirror", "permission": AclPermissionType.ALLOW, "pattern": PatternType.LITERAL, **more}
    return Acl(ResourceType.TOPIC, name, fields["principal"], "*", operation, fields["permission"], fields["pattern"])


class Answers:
    """A cluster that answers each request with a value, or raises it."""

    def __init__(self, acls: object, cluster: frozenset[int], topics: dict[str, frozenset[int]] | None = None) -> None:
        self.client = SimpleNamespace(settings=ClientSettings(("w:9092",), sasl_username="mirror"))
        self.clock = SYSTEM
        described = {
            name: DescribedTopic(Topic(TopicName(name), 1), 1, 0, operations)
            for name, operations in (topics or {}).items()
        }
        self._answers = {
            "describe_cluster": DescribedCluster((1,), cluster),
            "describe_topics": (described, {}),
            "describe_acls": acls,
        }

    def topics(self) -> list[TopicName]:
        return []

    def call(self, step: Any, *args: Any) -> Any:
        if step is find_unlisted_topics:
            return {}, args[-1].keys() & {"hidden"}
        answer = self._answers[step.__name__]
        if isinstance(answer, Exception):
            raise answer
        return answer
