"""The values of Secrets and ConfigMaps: from the resource's own file, from a directory as kubelet mounts them, or from
the environment."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from twinlog.config.security.jaas import escaped
from twinlog.config.strimzi.document import DocumentNode
from twinlog.config.strimzi.options import DIRECTORY_VARIABLE
from twinlog.config.text.providers import SECRETS_OF_KUBERNETES, Lookup, MissingError

_PREFIX = "TWINLOG_SECRET_"
_OTHER = re.compile(r"[^A-Z0-9]")


def variable_of(name: str, key: str) -> str:
    """The environment variable for `key` of the Secret `name`."""
    return _PREFIX + _OTHER.sub("_", f"{name}_{key}".upper())


@dataclass(frozen=True, slots=True)
class Secrets:
    """Looks values up: in documents beside the resource, then in DIRECTORY/<name>/<key>, then in the environment."""

    documents: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def read(self, name: str, key: str) -> str:
        """The value of `key` of a Secret or ConfigMap, with trailing line ends removed. Raises MissingError."""
        if (name, key) in self.documents:
            return self.documents[name, key].rstrip("\r\n")
        _check_name(name)
        _check_name(key)
        path = self.path_of(name, key)
        if path is not None:
            try:
                return path.read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                raise MissingError(f"{path} cannot be read: {reason}") from None
        variable = variable_of(name, key)
        if variable in self.environment:
            return self.environment[variable].rstrip("\r\n")
        raise MissingError(f"there is no key {key!r} of {name}: {self._looked(name, key)}")

    def read_all(self, name: str, pattern: str) -> str:
        """The values of all keys that match a pattern, for example `*.crt`, joined by line ends. Raises
        MissingError."""
        keys = sorted(key for key in self.keys(name) if fnmatch.fnmatchcase(key, pattern))
        if not keys:
            raise MissingError(f"no key of {name} matches {pattern}: {self._looked(name, pattern)}")
        return "\n".join(self.read(name, key) for key in keys)

    def keys(self, name: str) -> list[str]:
        """The keys of a Secret or ConfigMap; empty if it is in the environment."""
        found = {key for one, key in self.documents if one == name}
        folder = None if self.directory is None else self.directory / name
        if folder is not None and folder.is_dir():
            # Kubernetes keeps mounted files below a directory with dots.
            found |= {one.name for one in folder.iterdir() if one.is_file() and not one.name.startswith("..")}
        return sorted(found)

    def path_of(self, name: str, key: str) -> Path | None:
        """The file that holds `key` of `name`; None if it is missing."""
        if self.directory is None:
            return None
        path = self.directory / name / key
        return path if path.exists() else None

    def version(self) -> object:
        """Another value once a file of the directory was written, replaced or removed."""
        found = []
        for path in sorted(self.directory.glob("*/*")) if self.directory is not None else ():
            with suppress(OSError):
                state = path.stat()
                found.append((str(path), state.st_ino, state.st_mtime_ns, state.st_size))
        return found

    def _looked(self, name: str, key: str) -> str:
        where = f"no file {self.directory / name / key}" if self.directory is not None else "no --secrets directory"
        return f"{where}, and no variable {variable_of(name, key)}"

    def lookups(self) -> dict[str, Lookup]:
        """The config providers that a resource refers to, by the names that Strimzi gives them."""

        def quoted(path: str, key: str) -> str:
            return escaped(self._named(path, key))

        def variable(path: str, key: str) -> str:
            if key not in os.environ:
                raise MissingError(f"the variable {key} is not set")
            return os.environ[key]

        return {"strimzisecrets": self._named, "strimziquoted": quoted, "strimzienv": variable}

    def classes(self) -> dict[str, Lookup]:
        """Strimzi's classes of config providers that a resource may name, and that ask Kubernetes there."""
        return dict.fromkeys(SECRETS_OF_KUBERNETES, self._named)

    def _named(self, path: str, key: str) -> str:
        """The value of a reference of Strimzi's, NAMESPACE/NAME and a key or a pattern of keys. Raises MissingError."""
        name = path.rpartition("/")[2]
        return self.read_all(name, key) if "*" in key or "?" in key else self.read(name, key)


def _check_name(name: str) -> None:
    if Path(name).name != name or name in {".", ".."}:
        raise MissingError(f"{name!r} is not a file name")


def read_secret_documents(documents: Sequence[DocumentNode]) -> dict[tuple[str, str], str]:
    """The values of Secrets and ConfigMaps among `documents`, by name and key."""
    found: dict[tuple[str, str], str] = {}
    for one in documents:
        name, kind = one.text_of("metadata", "name"), one.text_of("kind")
        if name is None or kind not in {"Secret", "ConfigMap"}:
            continue
        for section in ("data", "stringData"):
            values = one.get(section)
            for key, value in (values.children if values is not None else {}).items():
                text = value.text
                if kind == "Secret" and section == "data":
                    try:
                        text = base64.b64decode(text, validate=False).decode("utf-8")
                    except (binascii.Error, UnicodeDecodeError):
                        continue
                found[name, key] = text
    return found


def secrets_of(documents: Sequence[DocumentNode], directory: Path | None) -> Secrets:
    """The sources of a resource's values; if `directory` is None, the environment's directory counts, if set."""
    named = os.environ.get(DIRECTORY_VARIABLE, "").strip()
    return Secrets(read_secret_documents(documents), directory or (Path(named) if named else None))
