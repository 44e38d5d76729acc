"""Secrets on the way from form to form: each becomes a reference, and stays out of readable files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from twinlog.config.keys.table import CLIENTS, CONNECTOR, SECURITY, WORKER_FILE
from twinlog.config.properties import PropertyEntry
from twinlog.config.strimzi.connection import Secrets, is_file_name, is_pattern
from twinlog.ops.convert.model import NotConverted, not_converted, raw

PROVIDER = "secrets"
PROVIDER_CLASS = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
ENVIRONMENT = "environment"
ENVIRONMENT_CLASS = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_CLASSES = {PROVIDER: PROVIDER_CLASS, ENVIRONMENT: ENVIRONMENT_CLASS}
_STRIMZIS = re.compile(r"\$\{strimzi(secrets|quoted):(?:[^}/:]+/)?([^}/:]+):([^}]+)\}")
_STRIMZIS_ENVIRONMENT = re.compile(r"\$\{strimzienv:([^}]+)\}")
NAMESPACE = "NAMESPACE"
"""The placeholder for the namespace of the Secrets, which is only known when the resource is applied."""

_REFERENCE = re.compile(r"(\$\{[^}]*\})")
_CLEAR_OPTION = re.compile(
    r"(?P<name>[\w.]*?(?P<last>\w*(?:password|secret|token|assertion))\s*=\s*)"
    r"(?P<word>\"(?:[^\"\\$]|\\.|\$(?!\{))*\"|'(?:[^'\\$]|\\.|\$(?!\{))*'|(?:[^\s;\"'$]|\$(?!\{))+)(?=[\s;]|$)",
    re.IGNORECASE,
)
_LIKE_A_SECRET = re.compile(r"(?:^|[._-])(?:password|passwd|passphrase|secret|token|credentials?)$", re.IGNORECASE)
_OTHER = re.compile(r"[^a-z0-9]+")


def is_secret(key: str) -> bool:
    """Whether the value of a key must be hidden, for any client; an unknown key, for example of a user's own filter, is
    judged by its last word."""
    names = key.split(".")
    for begin in range(len(names)):
        name = ".".join(names[begin:])
        found = SECURITY.exact.get(name) or CONNECTOR.exact.get(name) or WORKER_FILE.exact.get(name)
        found = found or next((table.exact[name] for table in CLIENTS.values() if name in table.exact), None)
        if found is not None:
            return found.secret
    return _LIKE_A_SECRET.search(key) is not None


def secret_name(text: str) -> str:
    """A name that Kubernetes allows."""
    return _OTHER.sub("-", text.lower()).strip("-") or "secret"


@dataclass(slots=True)
class SecretStore:
    """Keeps secrets apart; references lead to files `folder`/NAME/KEY, and have Strimzi's form if `strimzi` is set."""

    folder: str
    strimzi: bool = False
    kept: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    given: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    """The values of the Secrets that the input has beside a resource, by name and key."""
    unmatched: list[NotConverted] = field(default_factory=list)
    """References to a pattern of keys whose keys are unknown here."""
    used: set[str] = field(default_factory=set)
    """Names of the providers that references need."""
    names: dict[str, str] = field(default_factory=lambda: {name: name for name in _CLASSES})
    """The names of these two providers: they differ if a file has a provider of that name with another class."""

    def reserve_names(self, providers: Mapping[str, str]) -> None:
        """Keep clear of the names of providers that the input has, each with its class."""
        for name, own in _CLASSES.items():
            free, number = name, 2
            while providers.get(free, own) != own:
                free, number = f"{name}{number}", number + 1
            self.names[name] = free

    def store_secret(self, name: str, key: str, value: str) -> tuple[str, str]:
        """Keep a value; a second value of the same name and key gets a key of its own."""
        return self._keep(secret_name(name), key, value)

    def _keep(self, name: str, key: str, value: str) -> tuple[str, str]:
        unique, number = key, 2
        while self.kept.get((name, unique), value) != value:
            unique, number = f"{key}-{number}", number + 1
        self.kept[name, unique] = value
        return name, unique

    def without_secrets(self, key: str, entry: PropertyEntry, name: str) -> str:
        """The value of `key` as a properties file or a connector may show it."""
        value, secret = raw(entry), is_secret(key)
        if "${" not in value:
            if value and secret:
                return self.reference(*self.store_secret(name, key.rpartition("cluster.")[2], value))
            return value
        if secret:
            value = self._without_clear_text(key, value, name)
        return value.replace("${strimziquoted:", "${strimzisecrets:") if self.strimzi else self._for_kafka(entry, value)

    def _without_clear_text(self, key: str, value: str, name: str) -> str:
        """A secret that is a reference in part only."""
        if key.endswith("sasl.jaas.config"):

            def option(match: re.Match[str]) -> str:
                word = match["word"]
                word = word[1:-1] if word[0] in "\"'" else word
                return f'{match["name"]}"{self.reference(*self.store_secret(name, match["last"], word))}"'

            return _CLEAR_OPTION.sub(option, value)
        parts = _REFERENCE.split(value)
        kept = [
            self.reference(*self.store_secret(name, key, part)) if part.strip() and not part.startswith("${") else part
            for part in parts
        ]
        return "".join(kept)

    def reference(self, name: str, key: str) -> str:
        """A reference for Kafka's own DirectoryConfigProvider, or for Strimzi's."""
        if self.strimzi:
            self.used.add(NAMESPACE)
            return f"${{strimzisecrets:{NAMESPACE}/{name}:{key}}}"
        name_of = self.names[PROVIDER]
        self.used.add(name_of)
        return f"${{{name_of}:{self.folder}/{name}:{key}}}"

    def _for_kafka(self, entry: PropertyEntry, value: str) -> str:
        """Turns Strimzi's references into references of Kafka's own providers, which lack patterns: a pattern of
        keys becomes a reference to each key."""

        def environment(match: re.Match[str]) -> str:
            name = self.names[ENVIRONMENT]
            self.used.add(name)
            return f"${{{name}:{match[1]}}}"

        def secret(match: re.Match[str]) -> str:
            end_of_line = "\\n" if match[1] == "quoted" else "\n"
            keys = self._keys_of(entry, match[2], match[3])
            return end_of_line.join(self.reference(*self._keep_given(match[2], key)) for key in keys)

        value = _STRIMZIS_ENVIRONMENT.sub(environment, value)
        return _STRIMZIS.sub(secret, value)

    def _keys_of(self, entry: PropertyEntry, name: str, key: str) -> list[str]:
        if not is_pattern(key):
            return [key]
        keys = Secrets(self.given, Path(self.folder)).matching_keys(name, key)
        if not keys:
            found = not_converted(
                entry,
                f"the directory {self.folder}/{name} lacks files {key}, and the written reference to them will be "
                f"refused: Kafka's providers know no patterns; give --secrets DIR with the files DIR/{name}/{key}",
            )
            self.unmatched += [] if found in self.unmatched else [found]
        return keys or [key]

    def _keep_given(self, name: str, key: str) -> tuple[str, str]:
        """Keep the value of a Secret that the input has, unless the directory has the same value."""
        value = self.given.get((name, key))
        if value is None or not is_file_name(name) or not is_file_name(key):
            return name, key
        with suppress(OSError):
            if Path(self.folder, name, key).read_text("utf-8", "replace") == value:
                return name, key
        return self._keep(name, key, value)

    def providers(self, before: str) -> dict[str, str]:
        """Settings of the providers that references need, beside the providers of `before` (`config.providers`)."""
        classes = {self.names[name]: own for name, own in _CLASSES.items()}
        names = [name.strip() for name in before.split(",") if name.strip()]
        new = sorted(self.used - set(names) - {NAMESPACE})
        if not new:
            return {}
        return {"config.providers": ", ".join([*names, *new])} | {
            f"config.providers.{name}.class": classes[name] for name in new
        }


def secret_of(value: str) -> tuple[str, str] | None:
    """Name and key of the single Secret that a value refers to, in Strimzi's form or in the form of
    `SecretStore.reference`."""
    match = _STRIMZIS.fullmatch(value)
    if match is not None:
        return match[2], match[3]
    ours = re.fullmatch(r"\$\{\w+:([^}]*)/([^}/:]+):([^}:]+)\}", value)
    return None if ours is None else (ours[2], ours[3])
