"""Collects the results of a validation for each key: its definition, its value, its errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlog.config.keys.key import Key, KeyType
from twinlog.config.keys.scope import connector_key
from twinlog.config.keys.table import CLIENTS
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.values import ValueRefusedError, parse_value
from twinlog.errors.mistakes import MISSING, ConfigProblem, MistakeKind
from twinlog.worker.connectors.definitions import override_definition, written
from twinlog.worker.connectors.disagreements import Disagreement
from twinlog.worker.connectors.model import KeyDefinition, KeyValue, Validation

HIDDEN = "[hidden]"
_KEEPS_TEXT = frozenset({KeyType.STRING, KeyType.ENUM, KeyType.LIST})
"""Types whose values are shown in their written form, even when they are refused."""

_NUMBERS = frozenset({KeyType.SHORT, KeyType.INT, KeyType.LONG, KeyType.DOUBLE})


class Checks:
    """The results for a configuration; `entries` are its keys with a value, references resolved.

    Each error ends with the id that `twinlog explain` takes, as a line of `twinlog check` does.
    """

    def __init__(self, config: Mapping[str, str | None], entries: Mapping[str, PropertyEntry]) -> None:
        self.config = config
        self.entries = entries
        self._definitions: dict[str, KeyDefinition | None] = {}
        self._values: dict[str, KeyValue] = {}
        self._errors: dict[str, list[str]] = defaultdict(list)
        self._groups: dict[str, None] = {}

    @property
    def failed(self) -> bool:
        """Whether any key has an error."""
        return any(self._errors.values())

    def add(
        self, definition: KeyDefinition, key: Key, *, entry: PropertyEntry | None = None, visible: bool = True
    ) -> None:
        """Add the key of `definition` with its value, checked by `key`; `entry` replaces the entry of its name."""
        name = definition.name
        self._definitions[name] = definition
        if definition.group is not None:
            self._groups.setdefault(definition.group)
        found = self.entries.get(name) if entry is None else entry
        value = definition.default_value
        if found is None:
            if definition.required and name not in self.config:
                self._add_error(name, _missing(name), MistakeKind.MISSING_KEY)
        else:
            value = self._checked(name, key, found)
        self._values[name] = KeyValue(name, value, visible=visible)

    def add_override(self, word: str, setting: str) -> None:
        """Add a setting of a client of Connect itself, in its written form."""
        name = f"{word}.override.{setting}"
        self._definitions[name] = override_definition(word, setting)
        entry, key = self.entries.get(name), CLIENTS[word].exact.get(setting)
        # A key that is unknown here may be a secret of another client: its value stays hidden.
        self._values[name] = KeyValue(name, None if entry is None or key is None else shown(key, entry))

    def refuse(self, name: str, why: str, kind: MistakeKind | None = None) -> None:
        """Add an error of the key `name`, in words that follow its value; without a `kind` the key decides."""
        self._add_error(name, f"Invalid value {self._shown(name)} for configuration {name}: {why}", kind)

    def _add_error(self, name: str, text: str, kind: MistakeKind | None = None) -> None:
        problem = ConfigProblem("", None, name, text, kind=kind)
        self._errors[name].append(f"{text} [{problem.id}]")

    def add_problems(self, problems: Iterable[ConfigProblem], origin: str) -> None:
        """Add errors beyond single keys, each at its key unless the key has an error already.

        An error in another place than `origin` is an error of `connector.class`.
        """
        before = {name for name, errors in self._errors.items() if errors}
        for problem in problems:
            if problem.file != origin:
                self._errors["connector.class"].append(str(problem))
            elif problem.key not in before:
                self._errors[problem.key].append(f"{_words(problem, self._shown(problem.key))} [{problem.id}]")

    def add_nulls(self) -> None:
        """Add an error for each key with the value null."""
        for name, value in self.config.items():
            if value is None:
                self._add_error(name, f"Configuration {name} has the value null; write a value, or leave the key out")
                self.without_value(name)

    def without_value(self, name: str) -> None:
        """Drop the written value of `name`, as it is invalid."""
        if name in self._values:
            self._values[name] = replace(self._values[name], value=None)

    def recommend(self, name: str, values: tuple[str, ...]) -> None:
        """Recommend values for the key `name`."""
        self._values[name] = replace(self._values[name], recommended_values=values)

    def has_key(self, name: str) -> bool:
        """Whether the key `name` is defined."""
        return name in self._values

    def add_disagreements(self, name: str, found: Iterable[Disagreement]) -> None:
        """Add the conflicts between the connector `name` and other connectors, at the keys that fix them."""
        for item in found:
            for key, value in item.settings.items():
                definition = self._definitions.get(key)
                if definition is None:
                    continue
                self._definitions[key] = replace(definition, documentation=f"{item} {definition.documentation}")
                if item.name == name:
                    self.recommend(key, (value,))

    def result(self, class_name: str) -> Validation:
        """All results. Unknown keys come last, with None as definition."""
        for name, errors in self._errors.items():
            if errors and name not in self._values:
                self._definitions[name] = None
                self._values[name] = KeyValue(name, self._shown(name) if name in self.entries else None)
        configs = tuple(
            (self._definitions[name], replace(value, errors=tuple(self._errors.get(name, ()))))
            for name, value in self._values.items()
        )
        return Validation(class_name, tuple(self._groups), configs)

    def _checked(self, name: str, key: Key, entry: PropertyEntry) -> str | None:
        """The value in its shown form; None for a text that has the wrong type."""
        if entry.unresolved == "":
            # A value that is unknown without a mistake at this key.
            return shown(key, entry)
        if entry.unresolved is not None:
            text = f"Invalid value {entry.written} for configuration {name}: {entry.unresolved}; {entry.way_out}"
            self._add_error(name, text, MistakeKind.LOST_REFERENCE)
            return None
        try:
            value = parse_value(key, entry.value)
        except ValueRefusedError as refused:
            found = shown(key, entry)
            self._add_error(name, _refused(name, found, refused, hidden=found != entry.value), refused.kind)
            return found if key.type in _KEEPS_TEXT else _number(key, found)
        if "${" in entry.written or key.type is KeyType.ENUM:
            return shown(key, entry).strip()
        return written(key, value)

    def _shown(self, name: str) -> str:
        entry = self.entries.get(name)
        if entry is None:
            return "null"
        key, _ = connector_key(name)
        return HIDDEN if key is None else shown(key, entry)


def shown(key: Key, entry: PropertyEntry) -> str:
    """The value of an entry as it may be shown: secrets and resolved references stay hidden."""
    if key.secret:
        return HIDDEN
    return entry.written if "${" in entry.written else entry.value


def _number(key: Key, text: str) -> str | None:
    """A number that is out of range, in its shown form; None for a text of another type."""
    if key.type not in _NUMBERS:
        return None
    try:
        return written(key, parse_value(replace(key, minimum=None, maximum=None, nonzero=False), text))
    except ValueRefusedError:
        return None


def _refused(name: str, value: str, refused: ValueRefusedError, *, hidden: bool) -> str:
    plain = hidden or refused.found == repr(value)
    why = f"expected {refused.expected}" if plain else f"{refused.found}; expected {refused.expected}"
    return f"Invalid value {value} for configuration {name}: {why}"


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


def _words(problem: ConfigProblem, value: str) -> str:
    if problem.text == MISSING:
        return f"{_missing(problem.key)} Expected {problem.expected}"
    expected = problem.expected if problem.has_sentence else f"expected {problem.expected}"
    text = problem.text.removeprefix(f"{value.strip()}: ")
    found = "" if text in {repr(value), repr(value.strip()), HIDDEN} else f"{text}; "
    return f"Invalid value {value} for configuration {problem.key}: {found}{expected}"
