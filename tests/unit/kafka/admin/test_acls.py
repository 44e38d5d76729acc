"""The removal of ACLs ends when all brokers know of it: producers come next."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.admin import DeleteAclsRequest

from twinlog.errors import ClusterError
from twinlog.kafka.admin import acls
from twinlog.kafka.admin.acls import delete_everywhere
from twinlog.kafka.client import ClusterClient
from twinlog.kafka.net.loop import Loop
from twinlog.model.acls import AclOperation, AclPermissionType, TopicAcl
from twinlog.model.types import TopicName

GONE = TopicAcl(TopicName("t"), "User:app", "*", AclOperation.WRITE, AclPermissionType.DENY)
OTHER = TopicName("another topic")


class Brokers:
    """Two brokers; `late` is what each next question to the second broker finds of the removed right."""

    def __init__(self, late: Sequence[bool | Exception]) -> None:
        self.loop = Loop()
        self.alias = "b"
        self.late = list(late)

    async def nodes(self) -> list[int]:
        return [1, 2]

    async def send_request(self, request: Any, node: int | None = None, _timeout_s: float = 0.0) -> Any:
        if isinstance(request, DeleteAclsRequest):
            return SimpleNamespace(filter_results=[SimpleNamespace(error_code=0, matching_acls=[])])
        known = [OTHER]
        if node == 2 and self.late:
            found = self.late.pop(0) if len(self.late) > 1 else self.late[0]
            if isinstance(found, Exception):
                raise found
            known += [GONE.topic] * found
        return SimpleNamespace(error_code=0, resources=[SimpleNamespace(resource_name=name) for name in known])


def removed(brokers: Brokers) -> bool:
    try:
        return brokers.loop.run(delete_everywhere, cast(ClusterClient, brokers), [GONE])
    finally:
        brokers.loop.close()


def test_it_waits_for_the_last_broker() -> None:
    brokers = Brokers([True, ClusterError("silent"), True, False])
    assert removed(brokers)
    assert brokers.late == [False]


@pytest.mark.parametrize("last", [True, ClusterError("silent")])
def test_a_broker_that_stays_behind_ends_the_wait(last: bool | Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "GONE_S", 0.2)
    assert not removed(Brokers([last]))
