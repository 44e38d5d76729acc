"""Reads the users that may log in by SCRAM (KIP-554), and reads and changes the client quotas of users (KIP-546).

The functions are coroutines on the loop of a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes
from twinlog.kafka.protocol.error_codes import Code
from twinlog.model.quotas import PRODUCER_BYTE_RATE, Quota, QuotaEntity

_USER, _CLIENT_ID = "user", "client-id"
_TIMEOUT_S = 40.0

_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def supports_quotas(client: ClusterClient) -> bool:
    """Whether a cluster takes client quotas from its clients: Kafka since 2.6."""
    return client.supports(AlterClientQuotasRequest.API_KEY)


async def describe_producer_quotas(client: ClusterClient) -> list[Quota]:
    """Every quota for appending of a user, a client id or both.

    Raises RefusedError if the principal lacks DESCRIBE_CONFIGS on the cluster, ClusterError when the cluster fails to
    answer.
    """
    found = []
    for entry in await _entries(client):
        parts = {part.entity_type: part.entity_name or "" for part in entry.entity}
        if parts.keys() <= {_USER, _CLIENT_ID}:
            entity = QuotaEntity(parts.get(_USER), parts.get(_CLIENT_ID))
            found += [Quota(entity, value.value) for value in entry.values if value.key == PRODUCER_BYTE_RATE]
    return found


async def describe_quotas(client: ClusterClient) -> dict[str, dict[str, float]]:
    """Every client quota: its user and client id, in Kafka's words, then the quota's name and value.

    Raises as `describe_producer_quotas`.
    """
    found: dict[str, dict[str, float]] = {}
    for entry in await _entries(client):
        parts = sorted((part.entity_type, part.entity_name or "<default>") for part in entry.entity)
        # As kafka-configs.sh orders them: the user before the client id.
        whom = " ".join(f"{kind} {name}" for kind, name in sorted(parts, key=lambda part: part[0] != _USER))
        found[whom] = {value.key: value.value for value in entry.values}
    return found


async def _entries(client: ClusterClient) -> Sequence[Any]:
    response = await client.send_request(DescribeClientQuotasRequest(components=[], strict=False))
    if error_codes.refused(response.error_code):
        raise client.lacks("DESCRIBE_CONFIGS", "the cluster", "reading its client quotas")
    if response.error_code:
        raise ClusterError(f"cluster {client.alias}: client quotas: {error_codes.explain(response.error_code)}")
    return response.entries or ()


async def alter_producer_quotas(client: ClusterClient, quotas: Sequence[Quota]) -> None:
    """Set quotas for appending, and remove quotas whose rate is None.

    Raises RefusedError if the principal lacks ALTER_CONFIGS on the cluster, ClusterError when the cluster refuses a
    quota.
    """
    kind = AlterClientQuotasRequest.EntryData
    entries = [
        kind(
            entity=_entity(quota.entity),
            ops=[kind.OpData(key=PRODUCER_BYTE_RATE, value=quota.rate or 0.0, remove=quota.rate is None)],
        )
        for quota in quotas
    ]
    response = await client.send_request(
        AlterClientQuotasRequest(entries=entries, validate_only=False), None, _TIMEOUT_S
    )
    for quota, entry in zip(quotas, response.entries, strict=True):
        if error_codes.refused(entry.error_code):
            raise client.lacks("ALTER_CONFIGS", "the cluster", "changing its client quotas")
        if entry.error_code != Code.NONE:
            why = entry.error_message or error_codes.explain(entry.error_code)
            raise ClusterError(f"cluster {client.alias}: it refuses the quota {quota}: {why}")


def _entity(entity: QuotaEntity) -> list[Any]:
    parts = ((_USER, entity.user), (_CLIENT_ID, entity.client_id))
    kind = AlterClientQuotasRequest.EntryData.EntityData
    return [kind(entity_type=what, entity_name=name or None) for what, name in parts if name is not None]


async def describe_scram_users(client: ClusterClient) -> dict[str, tuple[str, ...]]:
    """Each user with its mechanisms; brokers keep passwords and salted passwords secret.

    Raises RefusedError if the principal lacks DESCRIBE on the cluster, ClusterError when the cluster fails to answer.
    """
    # Null also means all users. But a broker that refuses a null list fails and never answers (Kafka 4.3).
    response = await client.send_request(DescribeUserScramCredentialsRequest(users=[]))
    if error_codes.refused(response.error_code):
        raise client.lacks("DESCRIBE", "the cluster", "reading its SCRAM users")
    if response.error_code:
        raise ClusterError(f"cluster {client.alias}: SCRAM users: {error_codes.explain(response.error_code)}")
    return {
        one.user: tuple(sorted(_MECHANISMS.get(info.mechanism, str(info.mechanism)) for info in one.credential_infos))
        for one in response.results
        if not one.error_code
    }
