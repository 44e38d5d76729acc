"""The measured items of the last run in a file: a run of hours that ends early continues after its last item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.reports.report import Document
from harness.errors import HarnessError

NAME = "last-run.json"

CHANGING = ("date", "commit")
"""Facts of the machine that another start of the same run may have otherwise."""


class RunFile:
    """A document that grows by an item at a time, and its file."""

    def __init__(self, file: Path, document: Document) -> None:
        self.document = document
        self._file = file

    @classmethod
    def begin(cls, file: Path, settings: Mapping[str, object]) -> RunFile:
        """A run without items; the file of an earlier run is replaced with the first item."""
        return cls(file, {**settings, "items": [], "minutes": 0.0})

    @classmethod
    def resume(cls, file: Path, settings: Mapping[str, object]) -> RunFile:
        """The run in the file, with its items.

        Raises HarnessError if there is no file, or if it is of another machine, other code or other settings.
        """
        try:
            document: Document = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise HarnessError(f"{file} is missing: nothing was measured yet, or with another --work-dir.") from None
        wanted = json.loads(json.dumps(settings))
        other = [key for key, value in wanted.items() if _lasting(document.get(key)) != _lasting(value)]
        if other:
            raise HarnessError(
                f"{file} is of a run with other {', '.join(other)}. Start with the same options on the same code and "
                "machine, or measure everything without --resume."
            )
        return cls(file, document)

    @property
    def names(self) -> list[str]:
        """The names of the measured items."""
        return [item["name"] for item in self.document["items"]]

    def add(self, found: Mapping[str, object], minutes: float) -> None:
        """Keep a measured item, and how long it took."""
        self.document["items"].append(dict(found))
        self.document["minutes"] = round(self.document["minutes"] + minutes, 1)
        self._write()

    def note(self, key: str, value: object) -> None:
        """Keep another part of the document."""
        self.document[key] = value
        self._write()

    def sort(self, order: Sequence[str]) -> Document:
        """The document, with its items in an order."""
        self.document["items"].sort(key=lambda item: order.index(item["name"]))
        return self.document

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        draft.replace(self._file)


def _lasting(value: object) -> object:
    return {k: v for k, v in value.items() if k not in CHANGING} if isinstance(value, dict) else value
