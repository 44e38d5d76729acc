"""The configuration of a connector as the text of a form: lines `key = value` of a properties file, or JSON.

Secrets stay on the server. A text that returns to the browser has `(hidden)` in place of each secret, and the session
of the user keeps the secrets that the user typed: the same text is complete at the next step. In the text of an
existing connector `(hidden)` is the value that the worker has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.config.connector import InitialState, parse_connector
from twinlog.config.file_kind import is_json
from twinlog.config.keys.scope import connector_key
from twinlog.config.properties import property_line
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem
from twinlog.ops.connectors.create import HIDDEN, shown

DROPPED = "(write it again)"
"""In place of a secret of an unreadable text: the session keeps only secrets of texts that it can read."""

_ORIGIN = "configuration"
_FIRST_OF_PEM, _LAST_OF_PEM = "-----BEGIN", "-----END"
_LOST_HALF = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile(r'"([^"]+)"')
_WORD = re.compile(r"[\w.-]+")
_HIDDEN_VALUE = re.compile(r'"?\s*[:=]\s*"?' + re.escape(HIDDEN) + r'"?\s*,?\s*')
_BEGINS_WITH_KEY = re.compile(r'\s*\{?\s*"?([\w.-]+)"?\s*[:=]')


@dataclass(frozen=True, slots=True)
class TypedConfig:
    """A configuration that a user typed. `text` is fit for display, `config` is complete and has its secrets.

    `name` and `initial_state` are those of a connector's JSON, `name` otherwise that of the form. A wrong text has
    `problems`; an unreadable text also has an empty `config`.
    """

    text: str = field(repr=False)
    name: str = ""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    initial_state: InitialState | None = None
    problems: tuple[ConfigProblem, ...] = ()

    @classmethod
    def read(cls, text: str, name: str, known: Mapping[str, str | None]) -> TypedConfig:
        """Read the text of a form for the connector `name`; `known` has the values that `(hidden)` means."""
        try:
            found = parse_connector(text, _ORIGIN, name or None)
        except ConfigError as error:
            return cls(_readable_part(text), problems=tuple(error.problems))
        torn = [key for key, value in found.config.items() if _FIRST_OF_PEM in value and _LAST_OF_PEM not in value]
        if torn:
            ways = r"\n in place of each end of a line, as in every properties file"
            problems = tuple(_problem(key, "the PEM text ends after its first line", ways) for key in torn)
            return cls(_readable_part(text), problems=problems)
        config = {key: _meant(key, value, known) for key, value in found.config.items()}
        wrong = list(_wrong_values(config))
        if name.strip() not in ("", found.name):
            wrong.append(_problem("name", repr(found.name), f"{name.strip()!r}, or leave it out"))
        shown_text = config_text(found.config, as_json=is_json(text.encode("utf-8", "replace")))
        return cls(shown_text, found.name, config, found.initial_state, tuple(wrong))

    @property
    def secrets(self) -> Mapping[str, str]:
        """The values that `text` hides, by their keys."""
        return {
            key: value
            for key, value in self.config.items()
            if shown(key, value) == HIDDEN and value.strip() not in (HIDDEN, DROPPED)
        }

    def hide_secrets_in(self, text: str) -> str:
        """A text of the worker, free of the secrets of this configuration, and of the quoted parts of logins."""
        values = list(self.secrets.values())
        values += [part for value in values for part in _QUOTED.findall(value)]
        for secret in sorted(filter(None, values), key=len, reverse=True):
            # Short secrets are also parts of words.
            text = re.sub(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", HIDDEN, text)
        return text


def config_text(config: Mapping[str, str | None], *, as_json: bool = False) -> str:
    """A configuration as the text of a form: secrets are hidden, and the name is left out, as it has a field."""
    values = {key: _fit_for_form(key, value or "") for key, value in config.items() if key != "name"}
    if as_json:
        return json.dumps(values, indent=2, ensure_ascii=False)
    return "".join(property_line(key, value) for key, value in values.items())


def _fit_for_form(key: str, value: str) -> str:
    return value if value.strip() == DROPPED else shown(key, value) or ""


def _meant(key: str, value: str, known: Mapping[str, str | None]) -> str:
    kept = known.get(key) if value.strip() == HIDDEN else None
    return value if kept is None else kept


def _wrong_values(config: Mapping[str, str]) -> Iterator[ConfigProblem]:
    for key, value in config.items():
        if value.strip() in (HIDDEN, DROPPED):
            yield _problem(key, "its value is hidden, and the console lacks it", "the value")
        if _LOST_HALF.search(key) or _LOST_HALF.search(value):
            yield _problem(key, "half a character (a lone surrogate) is in it", "the whole character")


def _problem(key: str, text: str, expected: str) -> ConfigProblem:
    return ConfigProblem(_ORIGIN, None, key, text, expected)


def _readable_part(text: str) -> str:
    """An unreadable text, free of secrets: a line with a secret ends after its key, and the lines that may continue the
    secret are empty.
    """
    behind = f'": "{DROPPED}",' if is_json(text.encode("utf-8", "replace")) else f" = {DROPPED}"
    lines, hiding = [], False
    for line in re.split(r"\r\n|\r|\n", text):
        key = _BEGINS_WITH_KEY.match(line)
        # A line of base64 may end with `=`, and has no dots.
        if key is not None and ("." in key[1] or connector_key(key[1])[0] is not None):
            hiding = False
        end = None if hiding else _end_of_secret_key(line)
        if end is not None and not _HIDDEN_VALUE.fullmatch(line, end):
            hiding = True
            lines.append(line[:end] + behind)
        else:
            lines.append("" if hiding else line)
    return "\n".join(lines)


def _end_of_secret_key(line: str) -> int | None:
    """The index after the key of the first secret of a line; None if the line has no secret."""
    words = list(_WORD.finditer(line))
    secret = next((word for word in words if shown(word[0], "x") == HIDDEN), None)
    if secret is None and shown("x", line) == HIDDEN:
        # The value has the form of a secret, under a key of any name.
        secret = words[0] if words else None
    return None if secret is None else secret.end()
