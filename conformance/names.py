"""Stand-ins for what only a run knows: addresses, folders, ids. Put into a request, taken out of its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.call import Json


class Names:
    """`<name>` and the text it stands for; the longest texts are taken out first."""

    def __init__(self, known: Mapping[str, str], only_out: Mapping[str, str] | None = None) -> None:
        self._into = {f"<{name}>": text for name, text in known.items()}
        out = {**known, **(only_out or {})}
        self._out = sorted(((text, f"<{name}>") for name, text in out.items()), key=lambda pair: -len(pair[0]))

    def put_in(self, value: Json) -> Json:
        """A copy with every stand-in replaced, in keys too."""
        return _each_text(value, self._fill)

    def take_out(self, value: Json) -> Json:
        """A copy with every known text replaced by its stand-in."""
        return _each_text(value, self._strip)

    def _fill(self, text: str) -> str:
        for name, known in self._into.items():
            text = text.replace(name, known)
        return text

    def _strip(self, text: str) -> str:
        for known, name in self._out:
            text = text.replace(known, name)
        return text


def _each_text(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, bytes):
        return change(value.decode("latin-1")).encode("latin-1")
    if isinstance(value, list):
        return [_each_text(one, change) for one in value]
    if isinstance(value, dict):
        return {change(key): _each_text(one, change) for key, one in value.items()}
    return value
