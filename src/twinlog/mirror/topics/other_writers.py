"""The logins that may write to remote topics beside the flow: a plan names them, and a fence keeps them away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from twinlog.model.acls import EVERYBODY, Acl, allowed_writers, rights_on
from twinlog.model.types import TopicName


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """The other `logins` that ACLs let write to topics, in order, by topic; and the topics that lack an ACL.

    A topic without other writers is in neither. Brokers may leave a topic without ACLs open to each login
    (`allow.everyone.if.no.acl.found`). Super users are out of sight.
    """

    logins: Mapping[TopicName, tuple[str, ...]]
    without_acls: tuple[TopicName, ...]

    @property
    def open_to_everybody(self) -> list[TopicName]:
        """The topics with an ACL that lets each login write: a DENY would turn against the flow, too."""
        return [topic for topic, logins in self.logins.items() if EVERYBODY in logins]


def find_other_writers(acls: Collection[Acl], topics: Iterable[TopicName], login: str) -> OtherWriters:
    """The logins other than `login` that may write to topics, by the ACLs of their cluster."""
    logins: dict[TopicName, tuple[str, ...]] = {}
    without_acls: list[TopicName] = []
    for topic in topics:
        if others := allowed_writers(acls, topic) - {login}:
            logins[topic] = tuple(sorted(others))
        elif not rights_on(acls, topic):
            without_acls.append(topic)
    return OtherWriters(logins, tuple(without_acls))
