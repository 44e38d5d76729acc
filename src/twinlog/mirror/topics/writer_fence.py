"""Keeps other logins from remote topics with the offsets of their sources: a foreign record would take such an offset.

A DENY overrules each ALLOW, also of the flow itself, so each other login that may write gets a DENY of its own. A note
on the target names these ACLs before they are created: the next process of the flow, or a switchover, removes exactly
these. A topic without ACLs gets none: its first ACL would close it to its readers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twinlog.errors import ClusterError, RefusedError
from twinlog.kafka.admin.acls import (
    create_topic_acls,
    delete_topic_acls,
    describe_acls,
    everyone_allowed_without_acls,
)
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.consumer.topic_reader import TopicReader
from twinlog.kafka.net.connections import principal
from twinlog.kafka.record.last_records import LastRecords
from twinlog.mirror.topics.internal_topics import CompactedTopic, control
from twinlog.model.acls import (
    ANYWHERE,
    EVERYBODY,
    Acl,
    AclOperation,
    AclPermissionType,
    ResourceType,
    TopicAcl,
    acls_data,
    acls_of,
    allowed_writers,
    rights_on,
)
from twinlog.model.compact_json import ascii_json, object_of
from twinlog.model.topics import listed
from twinlog.model.types import TopicName
from twinlog.settings.flow import FlowSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FenceNote:
    """The ACLs of a flow's fence, and the remote topics that a switchover has opened to producers."""

    acls: tuple[TopicAcl, ...] = ()
    opened: frozenset[TopicName] = frozenset()


@dataclass(frozen=True, slots=True)
class SoleWriter:
    """The ACLs by which `login` is the only writer of topics, and the reasons for topics that stay open."""

    acls: tuple[TopicAcl, ...]
    open_topics: tuple[str, ...]


def sole_writer(acls: Collection[Acl], topics: Iterable[TopicName], login: str) -> SoleWriter:
    """The ACLs that deny WRITE on topics to every login except `login`, by the present `acls` of the cluster.

    Super users are out of reach: brokers ignore ACLs for super users.
    """
    wanted: list[TopicAcl] = []
    everybody: list[TopicName] = []
    for topic in topics:
        writers = allowed_writers(acls, topic)
        if EVERYBODY in writers:
            everybody.append(topic)
            continue
        deny = TopicAcl(topic, "", ANYWHERE, AclOperation.WRITE, AclPermissionType.DENY)
        wanted += [replace(deny, principal=one) for one in sorted(writers - {login})]
    if not everybody:
        return SoleWriter(tuple(wanted), ())
    text = f"an ACL lets {EVERYBODY} write to {listed(everybody)}, and a DENY would concern the flow, too"
    return SoleWriter(tuple(wanted), (f"{text}; remove this ACL",))


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
        topic = control(settings)
        self._topic = CompactedTopic(settings.name, target, topic, "ACLs of the flow")
        self._reader = TopicReader(target, topic.name, optional=True)
        # The process of the flow writes a record for each topic, a switchover the other record.
        self._acls_keys = ascii_json(["fence", settings.name, ""]).removesuffix(b'""]')
        self._opened_key = ascii_json(["fence opened", settings.name])
        self._last: LastRecords = {}

    def keep(self, remotes: Collection[TopicName]) -> str | None:
        """Deny WRITE on remote topics to other logins; returns the reason for topics that stay open to them.

        Topics that a switchover has opened to producers stay open.
        """
        note = self._remove_opened()
        remotes = [one for one in remotes if one not in note.opened]
        every = self._target.call(describe_acls, self._target.client, ResourceType.TOPIC)
        if every is None:
            raise RefusedError(f"cluster {self._target.alias} has no authorizer, so each login may write to it")
        noted = frozenset(note.acls)
        # A run that was killed may have had another login, and its fence then concerns this login.
        acls = [acl for acl in every if acl.of_topic not in noted]
        own = [acl for acl in note.acls if acl.principal == self._login]
        note = self._note(note, self._remove(own))
        listed_topics = [one for one in remotes if rights_on(acls, one)]
        # Without SASL, or by a token, brokers may know the flow under another name, and a DENY would concern the flow.
        strangers = [
            one for one in listed_topics if not self._login_is_known and self._login not in allowed_writers(acls, one)
        ]
        if strangers:
            raise RefusedError(
                f"cluster {self._target.alias}: no ACL lets {self._login} write to {listed(strangers)}, so brokers may "
                "know the flow under another name; grant WRITE to it by its name"
            )
        found = sole_writer(acls, listed_topics, self._login)
        present = {acl.of_topic for acl in every}
        missing = tuple(acl for acl in found.acls if acl not in present)
        reasons = list(found.open_topics)
        unlisted = [one for one in remotes if one not in listed_topics]
        if unlisted and self._target.call(everyone_allowed_without_acls, self._target.client) is not False:
            reasons.append(
                f"{listed(unlisted)} lacks an ACL, and brokers may leave it open to all "
                "(allow.everyone.if.no.acl.found); create an ACL for it"
            )
        if missing:
            self._write_acls(dict.fromkeys((*note.acls, *missing)), {acl.topic for acl in missing})
            refused = self._target.call(create_topic_acls, self._target.client, missing)
            reasons += [f"the ACL {acl} is refused: {refusal.text}" for acl, refusal in refused.items()]
            created = [acl for acl in missing if acl not in refused]
            if created:
                log.info("%s: created %d ACLs: %s", self._flow, len(created), listed(map(str, created)))
            # A switchover may have opened the topics between the two looks.
            self._remove_opened()
        return "; ".join(reasons) or None

    def lift(self) -> None:
        """Remove the ACLs of the fence: the flow ends."""
        note = self._read()
        self._note(note, self._remove(note.acls))

    def open_to_producers(self, remotes: Collection[TopicName]) -> None:
        """Remove the fence of remote topics, and keep the flow from a new fence until `expect_copies`.

        For another process than that of the flow.
        """
        opened = self._read().opened | set(remotes)
        self._write({self._opened_key: {"topics": sorted(opened)}})
        self._remove([acl for acl in self._read().acls if acl.topic in opened])

    def expect_copies(self, remotes: Collection[TopicName]) -> None:
        """The flow may raise its fence again: producers have left these remote topics."""
        opened = self._read().opened
        if not opened.isdisjoint(remotes):
            self._write({self._opened_key: {"topics": sorted(opened - set(remotes))}})

    def _remove_opened(self) -> FenceNote:
        note = self._read()
        return self._note(note, self._remove([acl for acl in note.acls if acl.topic in note.opened]))

    def _remove(self, acls: Collection[TopicAcl]) -> Collection[TopicAcl]:
        if acls:
            self._target.call(delete_topic_acls, self._target.client, list(acls))
            log.info("%s: removed %d ACLs of its fence", self._flow, len(acls))
        return acls

    def _note(self, note: FenceNote, removed: Collection[TopicAcl]) -> FenceNote:
        """Note that ACLs are removed; returns the note without them."""
        if not removed:
            return note
        gone = frozenset(removed)
        left = replace(note, acls=tuple(acl for acl in note.acls if acl not in gone))
        self._write_acls(left.acls, {acl.topic for acl in gone})
        return left

    def _read(self) -> FenceNote:
        self._reader.read_last(self._last)
        self._last = {
            key: kept for key, kept in self._last.items() if key == self._opened_key or key.startswith(self._acls_keys)
        }
        acls: list[TopicAcl] = []
        opened: frozenset[TopicName] = frozenset()
        try:
            for key, kept in self._last.items():
                found = object_of(kept.value())
                if key == self._opened_key:
                    opened = frozenset(found.get("topics", []))
                else:
                    acls += acls_of(found.get("acls", []))
        except (KeyError, TypeError) as error:
            raise ClusterError(
                f"cluster {self._target.alias}: the note of the fence is malformed: {error!r}"
            ) from error
        return FenceNote(tuple(acls), opened)

    def _write_acls(self, acls: Iterable[TopicAcl], topics: Collection[TopicName]) -> None:
        """Note the ACLs of these topics, a record for each topic: a record has at most a megabyte."""
        found: dict[TopicName, list[TopicAcl]] = {topic: [] for topic in sorted(topics)}
        for acl in acls:
            if acl.topic in found:
                found[acl.topic].append(acl)
        self._write(
            {self._acls_keys + ascii_json(topic) + b"]": {"acls": acls_data(some)} for topic, some in found.items()}
        )

    def _write(self, notes: Mapping[bytes, Mapping[str, Any]]) -> None:
        self._topic.ensure(look=True)
        self._topic.append([(key, ascii_json(value)) for key, value in notes.items()])
