"""The number to write instead of a wrong text: in the unit of its key, inside its limits, with an example."""

from __future__ import annotations

import re
from fractions import Fraction

from twinlog.config.keys.key import Key

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_BYTES_WITHOUT_SUFFIX = frozenset({"batch.size", "buffer.memory", "max.request.size"})
_MS_WITHOUT_SUFFIX = frozenset({"errors.retry.timeout", "sasl.kerberos.min.time.before.relogin"})
_TIMES_MS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
_SIZES = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib"), 2**10),
    **dict.fromkeys(("m", "mb", "mib"), 2**20),
    **dict.fromkeys(("g", "gb", "gib"), 2**30),
}
_LARGE = 2**31 - 1
"""From here on a default means `without a limit`, and is no example."""


def refused_number(key: Key, text: str, low: int, high: int) -> tuple[str, str]:
    """The mistake in a text that is no number from `low` to `high`, and the text to write instead."""
    word, unit = text.strip(), _unit(key)
    if _INTEGER.fullmatch(word):
        number = int(word)
        why = " is too small" if number < low else " is too large" if number > high else ""
        return f"{text!r}{why}", _expected(key, unit, low, high, number)
    amount = _AMOUNT.fullmatch(word)
    counted = None if amount is None else _converted(amount[1], amount[2].lower(), unit)
    if counted is not None and low <= counted <= high and not (counted == 0 and key.nonzero):
        return f"{text!r} has a unit", f"{counted}, because this key counts {unit}"
    if re.fullmatch(r"[+-]?[0-9]*\.[0-9]+", word):
        return f"{text!r} has a fraction", _expected(key, unit, low, high, None)
    return repr(text), _expected(key, unit, low, high, None)


def _unit(key: Key) -> str:
    words = key.name.split(".")
    if "ms" in words or key.name in _MS_WITHOUT_SUFFIX:
        return "milliseconds"
    if "seconds" in words:
        return "seconds"
    return "bytes" if "bytes" in words or key.name in _BYTES_WITHOUT_SUFFIX else ""


def _converted(number: str, word: str, unit: str) -> int | None:
    factors, base = (_SIZES, 1) if unit == "bytes" else (_TIMES_MS, 1000 if unit == "seconds" else 1)
    if not unit or word not in factors:
        return None
    found = Fraction(number) * factors[word] / base
    return int(found) if found.denominator == 1 else None


def _expected(key: Key, unit: str, low: int, high: int, number: int | None) -> str:
    limits, example = _limits(key, unit, low, high, number), _example(key, low, high)
    off = "; a negative number turns the work off" if key.nonzero and key.minimum is None else ""
    return f"{unit or 'a whole number'}{limits}, for example {example}{off}"


def _limits(key: Key, unit: str, low: int, high: int, number: int | None) -> str:
    of = " as a whole number" if unit else ""
    if key.minimum == -1 and key.nonzero:
        owner = "brokers" if key.maximum is None else "codec"
        least = "of 1 or more" if key.maximum is None else f"from 1 to {high}"
        return f"{of} {least}, or -1 for the default of the {owner}"
    if key.nonzero:
        return f"{of} of 1 or more"
    if key.minimum is not None and (key.maximum is not None or (number or 0) > high):
        return f"{of} from {low} to {high}"
    if key.minimum is not None:
        return f"{of} of {low} or more"
    return f"{of} up to {high}" if (number or 0) > high else of


def _example(key: Key, low: int, high: int) -> int:
    default = int(key.default) if key.default and _INTEGER.fullmatch(key.default) else 0
    if low <= default <= high and 0 < default < _LARGE:
        return default
    return max(low, 1) if key.maximum is None else min(max(low, 1), high)
