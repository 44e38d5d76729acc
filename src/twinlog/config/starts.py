"""Values of `auto.offset.reset` and `twinlog.start`: the first offset of a partition that has yet to be copied.

Durations follow `java.time.Duration.parse`, as Kafka's class AutoOffsetResetStrategy reads them (KIP-1106).
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

from twinlog.config.keys.key import ValueForm
from twinlog.config.refused import ValueRefusedError
from twinlog.model.moment import LAST, read_moment
from twinlog.settings.start import Start, StartKind

BY_DURATION = "by_duration:"

_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]+)H)?(?:(?P<minutes>[-+]?[0-9]+)M)?"
    r"(?:(?P<seconds>[-+]?[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_MS = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}
_WORDS: dict[str, StartKind] = {"earliest": "earliest", "latest": "latest", "none": "none"}


def read_reset(text: str) -> Start:
    """A value of `auto.offset.reset`. Raises ValueRefusedError."""
    word = text.strip()
    if word in _WORDS:
        return Start(_WORDS[word], text=word)
    if not word.startswith(BY_DURATION):
        raise ValueRefusedError(repr(word), ValueForm.RESET.value)
    return Start("ago", _duration_ms(word.removeprefix(BY_DURATION), word, ValueForm.RESET.value), word)


def read_start(text: str) -> Start:
    """A value of `twinlog.start`. Raises ValueRefusedError."""
    word = text.strip()
    if word in _WORDS and word != "none":
        return Start(_WORDS[word], text=word)
    duration = word.removeprefix(BY_DURATION)
    if _DURATION.fullmatch(duration) is not None:
        return Start("ago", _duration_ms(duration, word, ValueForm.START.value), word)
    try:
        moment = read_moment(word)
    except OverflowError as error:
        raise ValueRefusedError(str(error), ValueForm.START.value) from None
    if moment is None:
        raise ValueRefusedError(repr(word), ValueForm.START.value)
    return Start("time", moment, word)


def _duration_ms(text: str, word: str, expected: str) -> int:
    """Milliseconds of a duration, rounded up: a partition begins no later than the duration says."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[unit] for unit in _MS) or (found["time"] or "").upper() == "T":
        raise ValueRefusedError(repr(word), expected)
    total = sum((Decimal(found[unit] or 0) * ms for unit, ms in _MS.items()), Decimal(0))
    if found["fraction"]:
        sign = -1 if found["seconds"].startswith("-") else 1
        total += sign * Decimal(f"0.{found['fraction']}") * 1000
    if found["sign"] == "-":
        total = -total
    if total < 0:
        raise ValueRefusedError(f"{word!r} is negative", expected)
    if total > LAST:
        raise ValueRefusedError(f"{word!r} is too long", expected)
    return int(total.to_integral_value(ROUND_CEILING))
