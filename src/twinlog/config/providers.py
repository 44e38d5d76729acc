"""Values that stand elsewhere: `${file:/path:key}`, `${env:NAME}` and `${dir:/path:name}` references.

A reference is `${provider:path:key}` or `${provider:key}`; a provider counts only when `config.providers` names it
(Kafka classes ConfigTransformer, FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider). Results are not
searched for references again. Unlike Kafka, a reference to something missing is an error, because the text itself,
taken for a password, could only fail later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import javaproperties

from twinlog.config.properties import Entry
from twinlog.config.refused import ValueRefusedError

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."

Lookup = Callable[[str, str], str]
"""From path and key to the value; raises MissingError."""


class MissingError(LookupError):
    """What a reference points to does not exist or may not be read; the text names it."""


class ProviderError(ValueRefusedError):
    """A provider is set up wrong: `key` is the wrong key."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.key = key


class Providers:
    """The providers a file names, by name."""

    def __init__(self, lookups: Mapping[str, Lookup]) -> None:
        self._lookups = lookups
        self.names = tuple(lookups)

    def with_more(self, lookups: Mapping[str, Lookup]) -> Providers:
        """These and others beside them."""
        return Providers({**lookups, **self._lookups}) if lookups else self

    def resolve(self, text: str) -> str:
        """`text` with each reference to a known provider replaced; other `${...}` stay. Raises MissingError."""

        def replaced(match: re.Match[str]) -> str:
            lookup = self._lookups.get(match[1])
            return match[0] if lookup is None else lookup(match[3] or "", match[4])

        return _REFERENCE.sub(replaced, text)


def unknown_providers(text: str, known: tuple[str, ...]) -> list[str]:
    """Names of providers that `text` refers to and `known` lacks."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[1] not in known]


def build_providers(names: tuple[str, ...], entries: Mapping[str, Entry]) -> Providers:
    """The providers called `names`, set up by `config.providers.<name>.*` among `entries`. Raises ProviderError."""
    lookups: dict[str, Lookup] = {}
    for name in names:
        key = f"config.providers.{name}.class"
        entry = entries.get(key)
        if entry is None:
            raise ProviderError(key, "missing", f"the class of provider {name!r}, such as {_PACKAGE}FileConfigProvider")
        kind = entry.value.strip().removeprefix(_PACKAGE)
        allowed = entries.get(f"config.providers.{name}.param.allowed.paths")
        pattern = entries.get(f"config.providers.{name}.param.allowlist.pattern")
        if kind == "FileConfigProvider":
            lookups[name] = _file_lookup(_allowed_paths(allowed))
        elif kind == "DirectoryConfigProvider":
            lookups[name] = _directory_lookup(_allowed_paths(allowed))
        elif kind == "EnvVarConfigProvider":
            lookups[name] = _environment_lookup(pattern)
        else:
            raise ProviderError(
                key,
                repr(entry.value),
                "FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider of " + _PACKAGE.rstrip("."),
            )
    return Providers(lookups)


def _allowed_paths(entry: Entry | None) -> tuple[Path, ...] | None:
    if entry is None or not entry.value.strip():
        return None
    paths = tuple(Path(item.strip()) for item in entry.value.split(",") if item.strip())
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise ProviderError(entry.key, repr(str(path)), "absolute paths that exist")
    return tuple(path.resolve() for path in paths)


def _checked(path: str, allowed: tuple[Path, ...] | None) -> Path:
    if not path:
        raise MissingError("the reference names no path; write ${provider:/path:key}")
    full = Path(path).resolve()
    if allowed is not None and not any(full.is_relative_to(root) for root in allowed):
        raise MissingError(f"{path} is outside of allowed.paths")
    return full


def _file_lookup(allowed: tuple[Path, ...] | None) -> Lookup:
    read: dict[Path, tuple[object, dict[str, str]]] = {}

    def lookup(path: str, key: str) -> str:
        full = _checked(path, allowed)
        try:
            # A connector that is restarted has what the file holds by then.
            version = _version(full)
            if full not in read or read[full][0] != version:
                read[full] = version, dict(javaproperties.loads(full.read_bytes()))
        except (OSError, javaproperties.InvalidUEscapeError) as error:
            raise MissingError(f"{path} cannot be read: {_why(error)}") from None
        found = read[full][1]
        if key not in found:
            raise MissingError(f"{path} has no key {key!r}")
        return found[key]

    return lookup


def _version(path: Path) -> object:
    """What is another one once a file was written or replaced."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _directory_lookup(allowed: tuple[Path, ...] | None) -> Lookup:
    def lookup(path: str, key: str) -> str:
        full = _checked(path, allowed)
        if Path(key).name != key:
            raise MissingError(f"{key!r} is not a file name")
        try:
            return (full / key).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MissingError(f"{path}/{key} cannot be read: {_why(error)}") from None

    return lookup


def _why(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _environment_lookup(pattern: Entry | None) -> Lookup:
    try:
        allowed = re.compile(pattern.value if pattern is not None else ".*")
    except re.error as error:
        assert pattern is not None
        raise ProviderError(pattern.key, f"{pattern.value!r}: {error}", "a regular expression") from None

    def lookup(path: str, key: str) -> str:
        if path:
            raise MissingError("a reference to the environment has no path; write ${env:NAME}")
        if allowed.fullmatch(key) is None:
            raise MissingError(f"the variable {key} is not in allowlist.pattern")
        if key not in os.environ:
            raise MissingError(f"the variable {key} is not set")
        return os.environ[key]

    return lookup
