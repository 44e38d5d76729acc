"""What ACLs tell about the rights of a switchover's login on a cluster, and the way to a missing right."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import describe_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.admin.topics import describe_cluster
from twinlog.kafka.net.connections import principal
from twinlog.model.acls import Acl, AclOperation, ResourceType, forbidden, passes_acls

GRANTED_BY = "`twinlog acls FILE --for switchover --missing` prints the command that grants it"
"""The way out of a missing right."""


class LoginAcls:
    """The ACLs that limit the login of a connected cluster, read at once; none if they are hidden from the login.

    A super user is unlimited. Raises ClusterError when the cluster fails to answer.
    """

    def __init__(self, cluster: ClusterAdmin) -> None:
        self._login = principal(cluster.client.settings)
        self._acls: Sequence[Acl] = ()
        with suppress(RefusedError):
            acls = cluster.call(describe_acls, cluster.client) or ()
            on_cluster = cluster.call(describe_cluster, cluster.client).operations
            self._acls = () if passes_acls(acls, self._login, on_cluster) else acls

    def forbid(self, operation: AclOperation, name: str, kind: ResourceType = ResourceType.TOPIC) -> bool:
        """Whether the ACLs keep the login from an operation on a resource; see `forbidden`."""
        return forbidden(self._acls, self._login, name, operation, kind)
