"""Values outside of the file: `${file:/path:key}`, `${env:NAME}` and `${dir:/path:name}` references.

A reference is `${provider:path:key}` or `${provider:key}`; a provider counts only when `config.providers` names it
(Kafka classes ConfigTransformer, FileConfigProvider, EnvVarConfigProvider, DirectoryConfigProvider). References in
resolved values stay as they are. Unlike Kafka, a reference to something missing is an error, because the text itself,
taken for a password, could only fail later. Strimzi's providers of Kubernetes work in a pod. A provider of another
class may be listed; a reference to it is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import javaproperties

from twinlog.config.properties import PropertyEntry
from twinlog.config.text.kubernetes import KUBERNETES_CLASSES, kubernetes_lookup, pod_api
from twinlog.config.text.values import Lookup, MissingError, ValueRefusedError
from twinlog.errors import PatternError
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.model.java_regex.pattern import java_pattern

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_GIVE_FILE = "correct the path, or let this process read the file"
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""The characters that `surrogateescape` makes of bytes outside of UTF-8."""

_PACKAGE = "org.apache.kafka.common.config.provider."
_FILE, _DIRECTORY = _PACKAGE + "FileConfigProvider", _PACKAGE + "DirectoryConfigProvider"
_ENVIRONMENT = (_PACKAGE + "EnvVarConfigProvider", "io.strimzi.kafka.EnvVarConfigProvider")
_USUAL = {"env": _ENVIRONMENT[0], "file": _FILE, "dir": _DIRECTORY}
"""The class that a provider probably has, by a word in its usual name."""


class ProviderError(ValueRefusedError):
    """A provider is set up wrong: `key` is the wrong key."""

    def __init__(self, key: str, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.key = key


class Providers:
    """The providers a file names, by name. `undefined` are providers that lack the key of their class; Kafka leaves
    them out."""

    def __init__(self, lookups: Mapping[str, Lookup], undefined: tuple[str, ...] = ()) -> None:
        self._lookups = lookups
        self._undefined = undefined

    def with_more(self, lookups: Mapping[str, Lookup]) -> Providers:
        """These and further providers beside them."""
        return Providers({**lookups, **self._lookups}, self._undefined) if lookups else self

    def resolve(self, text: str) -> str:
        """`text` with each reference to a known provider replaced; other `${...}` stay. Raises MissingError."""

        def replaced(match: re.Match[str]) -> str:
            lookup = self._lookups.get(match[1])
            return match[0] if lookup is None else lookup(match[3] or "", match[4])

        return _REFERENCE.sub(replaced, text)

    def why_kept(self, text: str) -> str | None:
        """The reason why `resolve` keeps the first reference in `text` that it keeps; None if it resolves all."""
        found = self._kept(text)
        if found is None:
            return None
        name = found[1]
        why = f"{_class_key(name)} is missing" if name in self._undefined else f"config.providers lacks {name!r}"
        return f"{found[0]} stays as it is, because {why}"

    def declaration(self, text: str) -> str:
        """The entries that declare the provider of the first reference in `text` that `resolve` keeps."""
        found = self._kept(text)
        assert found is not None
        name = found[1]
        guess = next((kind for word, kind in _USUAL.items() if word in name.lower()), None)
        own = f"{_class_key(name)} = {guess or 'the class of that provider'}"
        names = ", ".join((*self._lookups, *self._undefined, *(() if name in self._undefined else (name,))))
        return own if name in self._undefined else f"config.providers = {names} and {own}"

    def _kept(self, text: str) -> re.Match[str] | None:
        return next((match for match in _REFERENCE.finditer(text) if match[1] not in self._lookups), None)


class UnknownProviders(Providers):
    """The providers of a worker whose file is missing: each may exist, and each value stays unknown without a
    mistake."""

    def __init__(self) -> None:
        super().__init__({})

    def resolve(self, text: str) -> str:
        """`text` without references; raises MissingError without words for any other text."""
        if _REFERENCE.search(text):
            raise MissingError("", "")
        return text

    def _kept(self, text: str) -> re.Match[str] | None:
        return None


def build_providers(
    names: tuple[str, ...],
    entries: Mapping[str, PropertyEntry],
    warnings: list[ConfigWarning],
    known: Mapping[str, Lookup] = MappingProxyType({}),
) -> Providers:
    """The providers called `names`, set up by `config.providers.<name>.*` among `entries`; `known` are further classes.

    A provider of an unknown class is a warning. Raises ProviderError for wrong settings of a known provider.
    """
    lookups: dict[str, Lookup] = {}
    for name in names:
        entry = entries.get(_class_key(name))
        if entry is None:
            continue
        kind = entry.value.strip()
        kind = kind if "." in kind else _PACKAGE + kind
        allowed = entries.get(f"config.providers.{name}.param.allowed.paths")
        if kind == _FILE:
            lookups[name] = _file_lookup(_allowed_paths(allowed))
        elif kind == _DIRECTORY:
            lookups[name] = _directory_lookup(_allowed_paths(allowed))
        elif kind in _ENVIRONMENT:
            lookups[name] = _environment_lookup(entries.get(f"config.providers.{name}.param.allowlist.pattern"))
        elif kind in known:
            lookups[name] = known[kind]
        elif kind in KUBERNETES_CLASSES and (api := pod_api()) is not None:
            separator = entries.get(f"config.providers.{name}.param.separator")
            lookups[name] = kubernetes_lookup(
                api, KUBERNETES_CLASSES[kind], "\n" if separator is None else separator.value
            )
        else:
            lookups[name] = _java_lookup(name, entry)
            text = (
                f"the Java class {entry.value.strip()} is unsupported here; a value that refers to it as "
                f"${{{name}:...}} is unreadable"
            )
            warnings.append(entry.warning(text, MistakeKind.PROVIDER))
    return Providers(lookups, tuple(name for name in names if name not in lookups))


def _class_key(name: str) -> str:
    return f"config.providers.{name}.class"


def _java_lookup(name: str, entry: PropertyEntry) -> Lookup:
    """Leads nowhere: only a JVM can load that class."""
    text = f"${{{name}:...}} needs the Java class {entry.value.strip()} ({entry.named}), which is unsupported here"
    way_out = (
        "mount the secret as a file, as Kubernetes or an agent of the store does, and write in "
        f"{entry.key}: {_DIRECTORY} for ${{{name}:/FOLDER:FILE}}, or {_FILE} for ${{{name}:/FILE:KEY}}"
    )

    def lookup(path: str, key: str) -> str:
        raise MissingError(text, way_out)

    return lookup


def _allowed_paths(entry: PropertyEntry | None) -> tuple[Path, ...] | None:
    if entry is None or not entry.value.strip():
        return None
    paths = tuple(Path(item.strip()) for item in entry.value.split(",") if item.strip())
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise ProviderError(entry.key, repr(str(path)), "absolute paths that exist")
    return tuple(path.resolve() for path in paths)


def _checked(path: str, allowed: tuple[Path, ...] | None) -> Path:
    if not path:
        raise MissingError("the reference lacks a path", "write ${provider:/path:key}")
    full = Path(path).resolve()
    if allowed is not None and not any(full.is_relative_to(root) for root in allowed):
        raise MissingError(f"{path} is outside of allowed.paths", "name its folder in allowed.paths of the provider")
    return full


def _file_lookup(allowed: tuple[Path, ...] | None) -> Lookup:
    read: dict[Path, tuple[object, dict[str, str]]] = {}

    def lookup(path: str, key: str) -> str:
        full = _checked(path, allowed)
        try:
            # A restarted connector gets the present content of the file.
            version = _version(full)
            if full not in read or read[full][0] != version:
                # In UTF-8, as Kafka's class reads it; invalid bytes spoil their own values only.
                text = full.read_bytes().decode("utf-8", "surrogateescape")
                read[full] = version, dict(javaproperties.loads(text))
        except (OSError, javaproperties.InvalidUEscapeError) as error:
            raise MissingError(f"{path} is unreadable: {_why(error)}", _GIVE_FILE) from None
        found = read[full][1]
        if key not in found:
            raise MissingError(f"{path} lacks a key {key!r}", f"add a line {key} = VALUE to it, or correct the key")
        if _NO_UTF8.search(found[key]):
            raise MissingError(
                f"the value of {key!r} in {path} is invalid UTF-8", "save the file in UTF-8, or write \\uXXXX in it"
            )
        return found[key]

    return lookup


def _version(path: Path) -> object:
    """A value that changes once a file is written or replaced."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _directory_lookup(allowed: tuple[Path, ...] | None) -> Lookup:
    def lookup(path: str, key: str) -> str:
        full = _checked(path, allowed)
        if Path(key).name != key:
            raise MissingError(f"{key!r} is an invalid file name", "write ${provider:/folder:file}")
        try:
            return (full / key).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise MissingError(f"{path}/{key} is unreadable: {_why(error)}", _GIVE_FILE) from None

    return lookup


def _why(error: Exception) -> str:
    if isinstance(error, javaproperties.InvalidUEscapeError):
        # The text of the error has characters of a value.
        return "a \\u in it lacks four hexadecimal digits"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _environment_lookup(pattern: PropertyEntry | None) -> Lookup:
    try:
        allowed = java_pattern(pattern.value if pattern is not None else ".*")
    except PatternError as error:
        assert pattern is not None
        raise ProviderError(pattern.key, str(error), "a regular expression of Java") from None

    def lookup(path: str, key: str) -> str:
        if path:
            raise MissingError("a reference to the environment takes a name only", "write ${env:NAME}")
        if not allowed.matches(key):
            raise MissingError(f"the variable {key} is outside of allowlist.pattern", "extend that pattern by its name")
        if key not in os.environ:
            raise MissingError(f"the variable {key} is unset", f"set it before the start: export {key}=VALUE")
        return os.environ[key]

    return lookup
