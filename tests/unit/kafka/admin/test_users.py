"""Reading SCRAM users asks in a form that a broker answers to everybody, also to whom it refuses it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import RefusedError
from twinlog.kafka.admin.users import describe_scram_users
from twinlog.kafka.protocol.error_codes import Code


class Refusing:
    """A broker that refuses, and gets lost over a request that names nobody by null, as Kafka's does."""

    alias = "west"

    async def send_request(self, request: Any) -> Any:
        len(request.users)
        return SimpleNamespace(error_code=Code.CLUSTER_AUTHORIZATION_FAILED, results=[])

    def lacks(self, operation: str, resource: str, purpose: str) -> RefusedError:
        return RefusedError(f"lacks {operation} on {resource}, needed for {purpose}")


def test_without_the_right_it_is_the_right_that_is_named() -> None:
    client: Any = Refusing()
    with pytest.raises(RefusedError, match="lacks DESCRIBE on the cluster, needed for reading its SCRAM users"):
        asyncio.run(describe_scram_users(client))
