"""Carries rights on source topics over to remote topics while a flow runs; only adds missing rights.

The rules are from Kafka class MirrorSourceConnector (syncTopicAcls), which creates every right again each time. Three
details differ. The target is asked first. The name `*`, which means all topics, is left out: MirrorMaker 2 makes a
useless `source.*` of it, or opens all topics of the target if names are kept. Fences on the source, of a switchover or
of a flow to it (`mirror.topics.writer_fence`), are left out: on the target nobody would lift them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from twinlog.errors import RefusedError
from twinlog.errors.message_ids import with_id
from twinlog.kafka.admin.acls import create_topic_acls, describe_topic_acls
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.mirror.topics.fence_notes import fences_on
from twinlog.mirror.topology.topology import Topology, topology_of
from twinlog.model.acls import EVERY_TOPIC, AclOperation, AclPermissionType, PatternType, TopicAcl
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.process.log_once import LogOnce
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


def remote_acl(topology: Topology, acl: TopicAcl) -> TopicAcl | None:
    """The right on the remote topic for a right on a source topic; None for a right that is left out.

    A principal with all rights on a topic may only read its copy, because only the flow writes there.
    """
    if acl.pattern != PatternType.LITERAL or acl.topic == EVERY_TOPIC or not topology.mirrors(acl.topic):
        return None
    allowed = acl.permission == AclPermissionType.ALLOW
    if allowed and acl.operation == AclOperation.WRITE:
        return None
    operation = AclOperation.READ if allowed and acl.operation == AclOperation.ALL else acl.operation
    return replace(acl, topic=topology.remote_name(acl.topic), operation=operation)


def missing_acls(
    topology: Topology,
    source: Iterable[TopicAcl],
    target: Iterable[TopicAcl],
    left_out: Callable[[TopicName], bool] = lambda _: False,
) -> list[TopicAcl]:
    """The rights that the target lacks, by the rights of both clusters; rights on `left_out` topics are skipped."""
    wanted = dict.fromkeys(
        remote
        for acl in source
        if (remote := remote_acl(topology, acl)) is not None and not left_out(TopicName(acl.topic))
    )
    present = set(target)
    return [acl for acl in wanted if acl not in present]


def _is_like_a_fence(acl: TopicAcl) -> bool:
    return acl.permission == AclPermissionType.DENY and acl.operation == AclOperation.WRITE


class AclSync:
    """The rights on a flow's remote topics; `run` looks once.

    `left_out(topic)` is true for a topic of the source that the flow leaves to other flows.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterAdmin,
        target: ClusterAdmin,
        left_out: Callable[[TopicName], bool] = lambda _: False,
    ) -> None:
        self._settings = settings
        self._left_out = left_out
        self._topology = topology_of(settings)
        self._source = source
        self._target = target
        self._logged = LogOnce(target.clock)

    def run(self) -> None:
        """Create the missing rights on the target.

        Raises RefusedError if the login lacks DESCRIBE on a cluster or ALTER on the target cluster, and ClusterError
        when a cluster is silent.
        """
        there = self._describe(self._source)
        if there is None:
            return
        self._warn_of_others(there)
        if not missing_acls(self._topology, there, (), self._left_out):
            return
        on_target = self._describe(self._target)
        if on_target is None:
            return
        missing = missing_acls(self._topology, there, on_target, self._left_out)
        if any(_is_like_a_fence(acl) for acl in missing):
            missing = missing_acls(self._topology, self._without_fences(there), on_target, self._left_out)
        if not missing:
            return
        refused = self._target.call(create_topic_acls, self._target.client, missing)
        for acl in missing:
            if acl in refused:
                self._log_once(logging.WARNING, f"TW-ACL-01: the target refuses the ACL {acl}: {refused[acl].text}")
            else:
                log.info("%s: created ACL %s", self._settings.name, acl)

    def _without_fences(self, there: list[TopicAcl]) -> list[TopicAcl]:
        try:
            fences = fences_on(self._source)
        except RefusedError as error:
            self._log_once(logging.INFO, f"{error}; if a flow to {self._source.alias} has a fence, it is carried over")
            return there
        return [acl for acl in there if acl not in fences]

    def _describe(self, admin: ClusterAdmin) -> list[TopicAcl] | None:
        found = admin.call(describe_topic_acls, admin.client)
        if found is None:
            self._log_once(
                logging.INFO,
                f"cluster {admin.alias} has no authorizer, so there are no ACLs to carry over; "
                f"{self._settings.switch('sync_topic_acls_interval_s')} = false turns this off",
            )
        return found

    def _warn_of_others(self, there: Iterable[TopicAcl]) -> None:
        """Warn of rights that are left out; MirrorMaker 2 skips them silently."""
        every = any(acl.topic == EVERY_TOPIC and acl.pattern == PatternType.LITERAL for acl in there)
        prefixed = {acl.topic for acl in there if acl.pattern == PatternType.PREFIXED}
        if every and self._topology.remote_name(EVERY_TOPIC) == EVERY_TOPIC:
            self._log_once(
                logging.WARNING,
                f"TW-ACL-02: the ACLs of {self._settings.source} for all topics (*) are left out: where topics keep "
                "their names "
                "they would open or close every topic of the target; create them there by hand if that is meant",
            )
        elif every:
            self._log_once(
                logging.INFO,
                f"the ACLs of {self._settings.source} for all topics (*) are left out; for rights on all remote "
                f"topics create ACLs of the prefix {self._topology.remote_name(EVERY_TOPIC)[:-1]} by hand",
            )
        if prefixed:
            self._log_once(
                logging.INFO,
                f"ACLs of {self._settings.source} for prefixes of names are left out, as in MirrorMaker 2: "
                f"{listed(prefixed)}",
            )

    def _log_once(self, level: int, text: str) -> None:
        """Log each note once, however many rounds it applies to."""
        if self._logged.is_new(text):
            found = with_id(f"{self._settings.name}: {text}", "TW-ACL-03")
            log.log(level, "%s", found)
