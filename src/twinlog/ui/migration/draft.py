"""The answers of an operator as a properties file of MirrorMaker 2."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.config.properties import property_line
from twinlog.errors import RequestError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

MECHANISMS: Mapping[str, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The mechanisms of a login by name and password, each with its login module."""

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
MOST_REPLICAS = 3
HIDDEN = "[hidden]"
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,49}")
_LONGEST = 20_000
_EXPRESSION = re.compile(r"[\\^$|?*+()\[\]{}]")
_SEPARATOR = re.compile(r"[,\s\x00-\x1f]")
"""Characters that end a name in a list."""

NO_GROUP = ".*"
"""The expression of the groups to leave out if all groups stay: an empty list would have the default, all groups."""


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The address of a cluster and its login; `authorities` are certificates as PEM, "" for the system's."""

    alias: str
    servers: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    authorities: str = ""

    @classmethod
    def of(cls, form: Mapping[str, str], side: str) -> ClusterAddress:
        """Read the fields of a form that begin with `side`. Raises RequestError 400 with the wrong field."""
        found = cls(**cls.typed(form, side), password=form.get(f"{side}_password", ""))
        if not _ALIAS.fullmatch(found.alias):
            raise RequestError(
                400, f"The {side} cluster needs a name of letters, digits, - and _; found {found.alias!r}."
            )
        if not found.servers or any(character.isspace() for character in found.servers.replace(", ", ",")):
            raise RequestError(
                400, f"Write the addresses of {found.alias} as HOST:PORT with commas between; found {found.servers!r}."
            )
        if found.protocol not in PROTOCOLS:
            raise RequestError(400, f"The protocol {found.protocol!r} is unknown; it is {', '.join(PROTOCOLS)}.")
        if found.uses_login and (found.mechanism not in MECHANISMS or not found.user):
            known = ", ".join(MECHANISMS)
            raise RequestError(400, f"{found.alias} needs a mechanism, {known}, with a user and a password.")
        if max(len(found.authorities), len(found.servers), len(found.password)) > _LONGEST:
            raise RequestError(400, f"A field of {found.alias} is longer than {_LONGEST} characters.")
        return found

    @classmethod
    def typed(cls, form: Mapping[str, str], side: str) -> dict[str, str]:
        """The fields of a form that begin with `side`, all but the password, by their names here."""
        return {name: form.get(f"{side}_{name}", "").strip() for name in cls.__slots__ if name != "password"}

    @property
    def uses_login(self) -> bool:
        return self.protocol.startswith("SASL")

    def settings(self, *, hides: bool) -> Iterator[tuple[str, str]]:
        """The keys below the alias; with `hides` the password is hidden."""
        yield "bootstrap.servers", self.servers
        if self.protocol != "PLAINTEXT":
            yield "security.protocol", self.protocol
        if self.uses_login:
            yield "sasl.mechanism", self.mechanism
            password = HIDDEN if hides else _quoted(self.password)
            login = f'username="{_quoted(self.user)}" password="{password}"'
            yield "sasl.jaas.config", f"{MECHANISMS[self.mechanism]} required {login};"
        if self.authorities and self.protocol.endswith("SSL"):
            yield "ssl.truststore.type", "PEM"
            yield "ssl.truststore.certificates", self.authorities.replace("\r\n", "\n")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@dataclass(frozen=True, slots=True)
class MigrationDraft:
    """A flow from `source` to `target`. `topics` and `groups` are names, None for all; without a group all groups stay.

    With `keeps_names` remote topics have the names of their sources, otherwise the alias of the source is in front.
    The numbers of replicas are those of new topics on each side.
    """

    source: ClusterAddress
    target: ClusterAddress
    topics: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    keeps_names: bool = True
    syncs_groups: bool = True
    syncs_acls: bool = False
    source_replicas: int = 1
    target_replicas: int = 1

    @property
    def flow(self) -> str:
        """The name of the flow."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def digest(self) -> str:
        """A digest of the file, for the forms of a page: it tells whether the page shows the newest draft.

        Passwords are hidden in it, as they belong to the migration.
        """
        return hashlib.sha256(self.text(hides=True).encode("utf-8", "replace")).hexdigest()[:32]

    def text(self, *, hides: bool = False) -> str:
        """The file; with `hides` passwords are hidden."""
        return "".join(self._lines(hides))

    def _lines(self, hides: bool) -> Iterator[str]:
        yield "# A migration of twinlog's console; `twinlog plan FILE` prints its effect, `twinlog run FILE` runs it.\n"
        yield property_line("clusters", f"{self.source.alias}, {self.target.alias}")
        for one in (self.source, self.target):
            yield "\n"
            for key, value in one.settings(hides=hides):
                yield property_line(f"{one.alias}.{key}", value)
        yield "\n"
        for key, value in self._flow_settings():
            yield property_line(f"{self.flow}.{key}", value)
        yield property_line(f"{self.target.alias}.offset.storage.replication.factor", str(self.target_replicas))
        yield property_line(f"{self.target.alias}->{self.source.alias}.emit.heartbeats.enabled", "false")

    def _flow_settings(self) -> Iterator[tuple[str, str]]:
        yield "enabled", "true"
        yield "topics", _listed(self.topics)
        if self.groups == ():
            yield "groups.exclude", NO_GROUP
        else:
            yield "groups", _listed(self.groups)
        if self.keeps_names:
            yield "replication.policy.class", IDENTITY
        yield "sync.group.offsets.enabled", _word(self.syncs_groups)
        yield "sync.topic.acls.enabled", _word(self.syncs_acls)
        replicas = str(self.target_replicas)
        yield "replication.factor", replicas
        yield "checkpoints.topic.replication.factor", replicas
        yield "heartbeats.topic.replication.factor", replicas
        yield "offset-syncs.topic.replication.factor", str(self.source_replicas)


def _word(on: bool) -> str:
    return "true" if on else "false"


def _listed(names: Sequence[str] | None) -> str:
    """A list of expressions: names whose dots match only dots, as topics differ in a single character at times."""
    return ".*" if names is None else ", ".join(map(_expression, names))


def _expression(name: str) -> str:
    """The expression that matches this name only, without a character that a list splits or trims."""
    plain = _EXPRESSION.sub(r"\\\g<0>", name).replace(".", "[.]")
    return _SEPARATOR.sub(lambda found: f"\\x{{{ord(found[0]):x}}}", plain)
