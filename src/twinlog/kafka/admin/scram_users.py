"""Reads the users that may log in to a cluster by SCRAM; a coroutine on a client's loop (KIP-554)."""

from __future__ import annotations

from kafka.protocol.admin import DescribeUserScramCredentialsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.protocol import error_codes

_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


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
