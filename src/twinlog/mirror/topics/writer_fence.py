"""Keeps other logins from remote topics with the offsets of their sources: a foreign record would take such an offset.

A DENY overrules each ALLOW, also of the flow itself, so each other login that may write gets a DENY of its own. A note
on the target names these ACLs before they are created: the next process of the flow, or a switchover, removes exactly
these. A topic without ACLs gets none: its first ACL would close it to its readers.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from twinlog.errors import RefusedError
from twinlog.kafka.admin.acls import (
    create_topic_acls,
    delete_everywhere,
    delete_topic_acls,
    describe_acls,
    everyone_allowed_without_acls,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.net.connections import principal
from twinlog.mirror.topics.fence_notes import FenceNote, FenceNotes
from twinlog.mirror.topics.other_writers import OtherWriters, find_other_writers
from twinlog.model.acls import (
    ANYWHERE,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPermissionType,
    ResourceType,
    TopicAcl,
    allowed_writers,
)
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SoleWriter:
    """The ACLs by which a login is the only writer of topics, and the reason for topics that stay open to everybody."""

    acls: tuple[TopicAcl, ...]
    open_topics: tuple[str, ...]


def sole_writer(others: OtherWriters) -> SoleWriter:
    """The ACLs that deny WRITE to other writers of topics.

    Super users are out of reach: brokers ignore ACLs for super users.
    """
    everybody = others.open_to_everybody
    denied = tuple(
        TopicAcl(topic, one, ANYWHERE, AclOperation.WRITE, AclPermissionType.DENY)
        for topic, logins in others.logins.items()
        if topic not in everybody
        for one in logins
    )
    if not everybody:
        return SoleWriter(denied, ())
    text = f"an ACL lets {EVERYBODY} write to {listed(everybody)}, and a DENY would concern the flow, too"
    return SoleWriter(denied, (f"{text}; remove this ACL",))


class WriterFence:
    """The fence of a flow on its target. Used by a single thread at a time.

    All methods raise ClusterError if the target is silent, and RefusedError for a missing right: DESCRIBE and ALTER on
    the cluster, and the rights on the topic for requests about single topics.
    """

    def __init__(self, settings: FlowSettings, target: ClusterAdmin) -> None:
        self._flow = settings.name
        self._login = principal(settings.producer.client)
        self._login_is_known = settings.producer.client.sasl_username is not None
        self._target = target
        self._notes = FenceNotes(settings, target)
        self._expected = settings.may_keep_offsets or settings.fence_writers

    def keep(self, remotes: Collection[TopicName]) -> str | None:
        """Deny WRITE on remote topics to other logins; returns the reason for topics that stay open to them.

        Topics that a switchover has opened to producers stay open, and other topics of an earlier run are opened.
        """
        note = self._remove_past(self._notes.read(), remotes)
        wanted = [one for one in remotes if one not in note.opened]
        present = self._describe()
        # A run that was killed may have had another login, and its fence then concerns this login.
        acls = [acl for acl in present if acl.of_topic not in note.acls]
        note = self._remove(note, [acl for acl in note.acls if acl.principal == self._login])
        others = find_other_writers(acls, wanted, self._login)
        self._require_own_name(acls, others, wanted)
        found = sole_writer(others)
        reasons = [*found.open_topics, *self._open_without_acls(others)]
        there = {acl.of_topic for acl in present}
        missing = [acl for acl in found.acls if acl not in there]
        if missing:
            reasons += self._raise(note, missing, remotes)
        return "; ".join(reasons) or None

    def lift(self) -> None:
        """Remove the ACLs of the fence of this process: the flow ends."""
        note = self._notes.read()
        self._remove(note, note.own)

    def lift_earlier(self) -> None:
        """Remove the fence of an earlier run, which was killed before its file left the fence out.

        A refusal names the ACLs, and the commands of Kafka's tool that remove them.
        """
        try:
            own = self._notes.read().own
        except RefusedError:
            if self._expected:
                raise
            # A flow without a fence may lack the right to read its notes.
            return
        try:
            self.lift()
        except RefusedError as error:
            remove = "kafka-acls.sh --remove --operation Write"
            commands = [
                f"{remove} {shlex.join(['--deny-principal', acl.principal, '--topic', acl.topic])}" for acl in own
            ]
            text = f"{error}; a fence of an earlier run still has {listed(map(str, own))}"
            raise RefusedError(f"{text}; grant the right, or remove the ACLs by {listed(commands)}") from error

    def open_to_producers(self, remotes: Collection[TopicName]) -> None:
        """Remove the fence of remote topics, and keep the flow from a new fence until `expect_copies`.

        All brokers take records from producers at the end. For another process than that of the flow.
        """
        opened = self._notes.read().opened | set(remotes)
        self._notes.write_opened(opened)
        # A fence that the flow raises at this moment was noted before: the flow removes it, too.
        acls = [acl for acl in self._notes.read().acls if acl.topic in opened]
        if acls and not self._target.call(delete_everywhere, self._target.client, acls):
            log.warning(
                "TW-ACL-06: %s: a broker has yet to confirm that the fence of %s is gone", self._flow, listed(remotes)
            )

    def expect_copies(self, remotes: Collection[TopicName]) -> None:
        """The flow may raise its fence again: producers have left these remote topics."""
        opened = self._notes.read().opened
        if not opened.isdisjoint(remotes):
            self._notes.write_opened(opened - set(remotes))

    def _describe(self) -> list[Acl]:
        every = self._target.call(describe_acls, self._target.client, ResourceType.TOPIC)
        if every is None:
            raise RefusedError(f"cluster {self._target.alias} has no authorizer, so each login may write to it")
        return every

    def _require_own_name(self, acls: Collection[Acl], others: OtherWriters, topics: Iterable[TopicName]) -> None:
        """Raise RefusedError if a DENY might concern the flow.

        Without SASL, or by a token, brokers may know the flow under another name.
        """
        if self._login_is_known:
            return
        listed_topics = [one for one in topics if one not in others.without_acls]
        strangers = [one for one in listed_topics if self._login not in allowed_writers(acls, one)]
        if strangers:
            raise RefusedError(
                f"cluster {self._target.alias}: no ACL lets {self._login} write to {listed(strangers)}, so brokers may "
                "know the flow under another name; grant WRITE to it by its name"
            )

    def _open_without_acls(self, others: OtherWriters) -> list[str]:
        unlisted = others.without_acls
        if not unlisted or self._target.call(everyone_allowed_without_acls, self._target.client) is False:
            return []
        text = f"{listed(unlisted)} lacks an ACL, and brokers may leave it open to all"
        return [f"{text} (allow.everyone.if.no.acl.found); create an ACL for it"]

    def _raise(self, note: FenceNote, missing: list[TopicAcl], remotes: Collection[TopicName]) -> list[str]:
        """Note the missing ACLs, and create them; returns the reasons of refusals."""
        self._notes.write_acls(dict.fromkeys((*note.own, *missing)), {acl.topic for acl in missing})
        # A switchover that opens topics from now on finds the note.
        note = self._remove_past(self._notes.read(), remotes)
        missing = [acl for acl in missing if acl.topic not in note.opened]
        refused = self._target.call(create_topic_acls, self._target.client, missing)
        created = [acl for acl in missing if acl not in refused]
        if created:
            log.info("%s: created %d ACLs: %s", self._flow, len(created), listed(map(str, created)))
        self._remove_past(self._notes.read(), remotes)
        return [f"the ACL {acl} is refused: {refusal.text}" for acl, refusal in refused.items()]

    def _remove_past(self, note: FenceNote, remotes: Collection[TopicName]) -> FenceNote:
        """Remove the fence of this process from topics that are open to producers, and from other topics than
        `remotes`."""
        kept = set(remotes) - note.opened
        return self._remove(note, [acl for acl in note.own if acl.topic not in kept])

    def _remove(self, note: FenceNote, acls: Collection[TopicAcl]) -> FenceNote:
        """Remove ACLs; returns the note without them."""
        if not acls:
            return note
        self._target.call(delete_topic_acls, self._target.client, list(acls))
        log.info("%s: removed %d ACLs of its fence", self._flow, len(acls))
        gone = frozenset(acls)
        left = replace(note, acls=note.acls - gone, own=tuple(acl for acl in note.own if acl not in gone))
        self._notes.write_acls(left.own, {acl.topic for acl in note.own if acl in gone})
        return left
