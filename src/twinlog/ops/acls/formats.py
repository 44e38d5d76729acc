"""Writes rights as commands of Kafka's tools, as Strimzi's KafkaUser, as Terraform's kafka_acl, or as JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from twinlog.model.acls import ANYWHERE, EVERYBODY, AclOperation, PatternType, ResourceType
from twinlog.model.topics import listed
from twinlog.model.types import Alias
from twinlog.ops.acls.needs import DenialLine, RightLine
from twinlog.ops.acls.resources import Resource
from twinlog.settings.client import ClientSettings

Clients = Mapping[Alias, ClientSettings]


_UNKNOWN = "# unknown: the right may be given already"


class RightsFormat(StrEnum):
    """The form of the rights."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"
    TERRAFORM = "terraform"
    JSON = "json"


def rights_text(
    lines: Sequence[RightLine], form: RightsFormat, clients: Clients, denials: Sequence[DenialLine] = ()
) -> str:
    """The rights in a form, and the denials to remove; `clients` has the addresses and logins of the clusters.

    A comment has the command of Kafka's tool, because a KafkaUser and Terraform only remove ACLs of their own.
    """
    match form:
        case RightsFormat.KAFKA_ACLS:
            return _commands(lines, clients, denials)
        case RightsFormat.STRIMZI:
            way = "remove its rule of type deny from the KafkaUser, or run"
            return "\n".join(filter(None, [_comments(denials, clients, way), _kafka_users(lines, clients)]))
        case RightsFormat.TERRAFORM:
            way = "remove its kafka_acl of acl_permission_type Deny, or run"
            return "\n".join(filter(None, [_comments(denials, clients, way), _terraform(lines)]))
        case RightsFormat.JSON:
            return json.dumps([*map(_denial_json, denials), *map(_as_json, lines)], indent=2)


def rights_words(lines: Iterable[RightLine]) -> list[str]:
    """The rights of each cluster and principal in words, with the first names of each operation."""
    names: defaultdict[tuple[Alias, str], defaultdict[tuple[str, ResourceType], list[str]]]
    names = defaultdict(lambda: defaultdict(list))
    for line in lines:
        operations = ", ".join(operation.name for operation in line.operations)
        names[line.cluster, line.principal][operations, line.resource.kind].append(_shown(line.resource))
    return [
        f"{'; '.join(_on(*place, some) for place, some in found.items())} of {cluster} for {principal}"
        for (cluster, principal), found in names.items()
    ]


def unknown_texts(lines: Iterable[RightLine]) -> list[str]:
    """Unknown rights as a sentence for each cluster and principal."""
    return [
        f"unknown: {words}: the login lacks the right to read ACLs, and brokers hide its operations there; grant "
        "DESCRIBE on the cluster to it, or apply the printed lines: a right may be given twice; then run the command "
        "again"
        for words in rights_words(lines)
    ]


def blind_texts(clusters: Iterable[Alias]) -> list[str]:
    """A sentence for each cluster that hides its ACLs, and with them denials and rights on later names."""
    return [
        f"the login lacks the right to read ACLs of {cluster}, so denials and rights on later names are hidden; grant "
        "DESCRIBE on the cluster to it, and run the command again"
        for cluster in clusters
    ]


def _on(operations: str, kind: ResourceType, names: Sequence[str]) -> str:
    word = kind.name.lower().replace("_", " ")
    return f"{operations} on {word if len(names) == 1 else f'{word}s'} {listed(names)}"


def _shown(place: Resource) -> str:
    return f"{place.name} (prefix)" if place.pattern == PatternType.PREFIXED else place.name


def command_of(one: RightLine, clients: Clients) -> str:
    """The command of Kafka's kafka-acls.sh that gives a right, or removes the ACL of a withdrawn right."""
    change = ["--remove", "--force"] if one.withdrawn else ["--add"]
    change += ["--allow-principal", one.principal]
    return shlex.join([*_tool(one.cluster, clients), *change, *_place_of(one.resource, one.operations)])


def removal_of(one: DenialLine, clients: Clients) -> str:
    """The command of Kafka's kafka-acls.sh that removes a denial at once."""
    acl = one.acl
    change = ["--remove", "--force", "--deny-principal", acl.principal]
    change += [] if acl.host == ANYWHERE else ["--deny-host", acl.host]
    place = Resource(ResourceType(acl.resource), acl.name, PatternType(acl.pattern))
    return shlex.join([*_tool(one.cluster, clients), *change, *_place_of(place, [AclOperation(acl.operation)])])


def _tool(cluster: Alias, clients: Clients) -> list[str]:
    return admin_tool("kafka-acls.sh", cluster, clients[cluster])


def admin_tool(tool: str, cluster: Alias, client: ClientSettings) -> list[str]:
    """The first words of a command of Kafka's tools that needs the login of an administrator."""
    words = [tool, "--bootstrap-server", ",".join(client.bootstrap_servers)]
    return words if client.security_protocol == "PLAINTEXT" else [*words, "--command-config", admin_file(cluster)]


def _place_of(resource: Resource, operations: Iterable[AclOperation]) -> list[str]:
    words = []
    for operation in operations:
        words += ["--operation", _pascal(operation)]
    match resource.kind:
        case ResourceType.CLUSTER:
            words.append("--cluster")
        case ResourceType.GROUP:
            words += ["--group", resource.name]
        case ResourceType.TRANSACTIONAL_ID:
            words += ["--transactional-id", resource.name]
        case _:
            words += ["--topic", resource.name]
    return words if resource.pattern != PatternType.PREFIXED else [*words, "--resource-pattern-type", "prefixed"]


def admin_file(cluster: Alias) -> str:
    """The name of the file with the login of an administrator, in the commands."""
    return f"{cluster}-admin.properties"


def _reason(one: DenialLine) -> str:
    """A comment about a denial: the right that it takes away, and the logins that it concerns."""
    if one.fence:
        return f"# {one.acl} is a fence, which twinlog itself removes; it takes {one.taken}"
    if one.left_by:
        return f"# {one.acl} is of the fence of {one.left_by}, and no process of this flow runs"
    everybody = "; it concerns every login" if one.acl.principal == EVERYBODY else ""
    return f"# {one.acl} takes {one.taken}, whatever an ALLOW gives{everybody}"


def _removals(denials: Iterable[DenialLine], clients: Clients) -> list[str]:
    return [text for one in denials for text in (_reason(one), *([] if one.fence else [removal_of(one, clients)]))]


def _comments(denials: Iterable[DenialLine], clients: Clients, way: str) -> str:
    return "\n".join(
        text
        for one in denials
        for text in (
            f"# cluster {one.cluster}",
            _reason(one),
            *([] if one.fence else [f"# {way}", f"# {removal_of(one, clients)}"]),
        )
    )


def _commands(lines: Sequence[RightLine], clients: Clients, denials: Sequence[DenialLine]) -> str:
    found: list[str] = []
    rights = _by_cluster(lines)
    for cluster in dict.fromkeys([*(one.cluster for one in denials), *rights]):
        if found:
            found.append("")
        some = rights.get(cluster, [])
        removed = [one for one in denials if one.cluster == cluster]
        names = [*(one.principal for one in some), *(one.acl.principal for one in removed)]
        principals = ", ".join(dict.fromkeys(names))
        found.append(f"# cluster {cluster}: the rights of {principals}")
        if clients[cluster].security_protocol != "PLAINTEXT":
            found.append(f"# {admin_file(cluster)} has the login of an administrator of {cluster}")
        found += _removals(removed, clients)
        found += [command_of(one, clients) for one in some if not one.unknown]
        unknown = [command_of(one, clients) for one in some if one.unknown]
        found += [_UNKNOWN, *unknown] if unknown else []
    return "\n".join(found)


def _kafka_users(lines: Sequence[RightLine], clients: Clients) -> str:
    documents = []
    groups: dict[tuple[Alias, str], list[RightLine]] = defaultdict(list)
    for one in lines:
        groups[one.cluster, one.principal].append(one)
    for (cluster, principal), some in groups.items():
        text = [
            "apiVersion: kafka.strimzi.io/v1",
            "kind: KafkaUser",
            "metadata:",
            f"  name: {_user_name(principal)}",
            f"  labels: {{strimzi.io/cluster: {json.dumps(cluster)}}}",
            "spec:",
            *_authentication(clients[cluster]),
            "  authorization:",
            "    type: simple",
            "    acls:",
        ]
        for one in some:
            operations = ", ".join(_pascal(operation) for operation in one.operations)
            text += [f"      {_UNKNOWN}"] if one.unknown else []
            text += [f"      - resource: {_strimzi_resource(one)}", f"        operations: [{operations}]"]
        documents.append("\n".join(text))
    return "\n---\n".join(documents)


def _authentication(client: ClientSettings) -> list[str]:
    """The operator makes users of these two kinds; it takes other logins as they are."""
    if client.sasl_mechanism == "SCRAM-SHA-512":
        return ["  authentication:", "    type: scram-sha-512"]
    if client.tls is not None and client.tls.subject:
        return ["  authentication:", "    type: tls-external"]
    return []


def _strimzi_resource(one: RightLine) -> str:
    kinds = {ResourceType.TRANSACTIONAL_ID: "transactionalId"}
    kind = kinds.get(one.resource.kind, one.resource.kind.name.lower())
    if one.resource.kind == ResourceType.CLUSTER:
        return f"{{type: {kind}}}"
    pattern = one.resource.pattern.name.lower().replace("prefixed", "prefix")
    return f"{{type: {kind}, name: {json.dumps(one.resource.name)}, patternType: {pattern}}}"


def _user_name(principal: str) -> str:
    """A name that Kubernetes takes; the common name of a certificate is used for its subject."""
    name = principal.removeprefix("User:")
    common = re.search(r"(?:^|,)CN=([^,]+)", name)
    return common[1] if common else name


_TERRAFORM_KINDS = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalID",
}


def _terraform(lines: Sequence[RightLine]) -> str:
    """Blocks for the provider Mongey/kafka, with a provider alias for each cluster."""
    blocks: list[str] = []
    for cluster, some in _by_cluster(lines).items():
        alias = re.sub(r"\W", "_", cluster)
        number = 0
        for one in some:
            for operation in one.operations:
                number += 1
                blocks.append(
                    f"{_UNKNOWN}\n" * one.unknown + f'resource "kafka_acl" "twinlog_{alias}_{number}" {{\n'
                    f"  provider                     = kafka.{alias}\n"
                    f"  resource_name                = {json.dumps(one.resource.name)}\n"
                    f'  resource_type                = "{_TERRAFORM_KINDS[one.resource.kind]}"\n'
                    f'  resource_pattern_type_filter = "{one.resource.pattern.name.capitalize()}"\n'
                    f"  acl_principal                = {json.dumps(one.principal)}\n"
                    '  acl_host                     = "*"\n'
                    f'  acl_operation                = "{_pascal(operation)}"\n'
                    '  acl_permission_type          = "Allow"\n'
                    "}"
                )
    return "\n\n".join(blocks)


def _as_json(one: RightLine) -> dict[str, Any]:
    return {
        "cluster": one.cluster,
        "principal": one.principal,
        "resource_type": one.resource.kind.name,
        "name": one.resource.name,
        "pattern_type": one.resource.pattern.name,
        "operations": [operation.name for operation in one.operations],
        "why": one.why,
        "unknown": one.unknown,
        "permission": "ALLOW",
        "host": ANYWHERE,
        "change": "remove" if one.withdrawn else "add",
    }


def _denial_json(one: DenialLine) -> dict[str, Any]:
    acl = one.acl
    return {
        "cluster": one.cluster,
        "principal": acl.principal,
        "resource_type": ResourceType(acl.resource).name,
        "name": acl.name,
        "pattern_type": PatternType(acl.pattern).name,
        "operations": [AclOperation(acl.operation).name],
        "why": f"takes {one.taken}",
        "unknown": False,
        "permission": "DENY",
        "host": acl.host,
        "change": "wait for twinlog" if one.fence else "remove",
    }


def _by_cluster(lines: Iterable[RightLine]) -> dict[Alias, list[RightLine]]:
    found: dict[Alias, list[RightLine]] = defaultdict(list)
    for one in lines:
        found[one.cluster].append(one)
    return found


def _pascal(operation: AclOperation) -> str:
    return "".join(word.capitalize() for word in operation.name.split("_"))
