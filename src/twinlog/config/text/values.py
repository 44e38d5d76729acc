"""Makes values from their text, by the rules of Kafka's ConfigDef and the checks that each key asks for.

Some keys have a grammar of their own: addresses and headers of the REST API (Kafka classes RestServer and
RestServerConfig), and the first offset of a partition that has yet to be copied (`auto.offset.reset`,
`twinlog.start`). Durations follow `java.time.Duration.parse`, as Kafka's class AutoOffsetResetStrategy reads them
(KIP-1106).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_CEILING, Decimal
from typing import cast, get_args

from twinlog.config.keys.key import Key, KeyType, ValueForm, ValueReplacement
from twinlog.config.text.whole_numbers import refused_number
from twinlog.errors import PatternError
from twinlog.errors.mistakes import MistakeKind
from twinlog.mirror.topology.filters import compile_list
from twinlog.model.amounts import LAST, read_moment
from twinlog.settings.start import Start, StartKind
from twinlog.settings.worker import HeaderAction, HeaderSettings, ListenerAddress, Scheme

Lookup = Callable[[str, str], str]
"""From the path and the key of a reference to its value; raises MissingError."""


class MissingError(LookupError):
    """The target of a reference is missing or unreadable; the text names it, and `way_out` the remedy."""

    def __init__(self, text: str, way_out: str) -> None:
        super().__init__(text)
        self.way_out = way_out


class ValueRefusedError(ValueError):
    """`found` and `expected` are the words for the message; they leave out secrets.

    A `found` of a quoted value alone means that the value is invalid. A `kind` differs from the kind of the key.
    """

    def __init__(self, found: str, expected: str, kind: MistakeKind | None = None) -> None:
        super().__init__(f"{found}; expected {expected}")
        self.found = found
        self.expected = expected
        self.kind = kind


_LISTENER = re.compile(r"([A-Za-z]+)://(?:\[([0-9A-Fa-f:.%]*)\]|([0-9A-Za-z._%-]*)):([0-9]+)")
_HEADER_RULE = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')
_ESCAPED = re.compile(r"\\(.)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,15}")
_MOST_PORTS = 2**16


def parse_listener(text: str) -> ListenerAddress:
    """Parse an address, for example `http://0.0.0.0:8083`. Raises ValueRefusedError."""
    found = _LISTENER.fullmatch(text.strip())
    scheme = "" if found is None else found[1].lower()
    if found is None or scheme not in get_args(Scheme) or int(found[4]) >= _MOST_PORTS:
        raise ValueRefusedError(repr(text), "http://host:port or https://host:port")
    return ListenerAddress(cast(Scheme, scheme), found[2] or found[3] or "", int(found[4]))


def parse_header_rules(text: str) -> tuple[HeaderSettings, ...]:
    """Parse rules, for example `set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"`.

    Raises ValueRefusedError.

    The grammar is the grammar of Jetty's class HeaderFilter: the action in any case, quotes if a rule holds a comma.
    """
    rules: list[HeaderSettings] = []
    left = text.strip()
    while left:
        match = _HEADER_RULE.match(left)
        if match is None:
            raise ValueRefusedError(repr(left), "quotes only around a whole rule, and an end of every quote")
        quoted, bare = match.groups()
        rules.append(_header_rule(bare.strip() if quoted is None else _ESCAPED.sub(r"\1", quoted)))
        left = left[match.end() :]
    return tuple(rules)


def _header_rule(item: str) -> HeaderSettings:
    word, _, header = item.strip().partition(" ")
    name, colon, value = (part.strip() for part in header.partition(":"))
    action = next((known for known in get_args(HeaderAction) if known.lower() == word.lower()), None)
    if action is None or not colon or _HEADER_NAME.fullmatch(name) is None:
        actions = ", ".join(get_args(HeaderAction))
        raise ValueRefusedError(repr(item), f"{actions}, then Name: value; in quotes if it has a comma")
    if _HEADER_VALUE.fullmatch(value) is None:
        raise ValueRefusedError(repr(item), "printable ASCII as the value of a header")
    if action.endswith("Date") and _MILLISECONDS.fullmatch(value) is None:
        raise ValueRefusedError(repr(item), f"milliseconds from the answer on as the value of {action}")
    return HeaderSettings(cast(HeaderAction, action), name, value)


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
    """Milliseconds of a duration, rounded up: a partition begins at the duration's moment or before."""
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


Value = bool | int | float | str | tuple[str, ...]

_LIMITS = {
    KeyType.SHORT: (-(2**15), 2**15 - 1),
    KeyType.INT: (-(2**31), 2**31 - 1),
    KeyType.LONG: (-(2**63), 2**63 - 1),
}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PYTHON_CLASS = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")
_TOPIC_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]+")
_SERVER = re.compile(r"(?:[A-Za-z0-9._%-]+://)?(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._%-]+):([0-9]+)")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TOPIC_NAME_LIMIT = 249


def parse_value(key: Key, text: str) -> Value:
    """`text` as a value of `key`, or the value that is used in its place. Raises ValueRefusedError; its words leave out
    secrets."""
    other = instead_of(key, text)
    value = _PARSERS[key.type](key, text if other is None else other.value)
    if key.form is not None:
        _check_form(key.form, value)
    return value


def instead_of(key: Key, text: str) -> ValueReplacement | None:
    """The replacement of `text`, if MirrorMaker 2 starts with this value but it is ignored here; None if `text` itself
    counts, or is wrong."""
    found, word = key.instead, text.strip()
    if found is None:
        return None
    if found.written:
        return found if (word.lower() if key.type is KeyType.BOOL else word) in found.written else None
    assert key.maximum is not None
    above = _INTEGER.fullmatch(word) is not None and key.maximum < int(word) <= _LIMITS[key.type][1]
    return found if above else None


_MEANT = {"true": {"yes", "y", "on", "1", "t"}, "false": {"no", "n", "off", "0", "f"}}


def _shown(key: Key, text: str) -> str:
    return "[hidden]" if key.secret else repr(text)


def _boolean(key: Key, text: str) -> bool:
    word = text.strip().lower()
    if word not in {"true", "false"}:
        meant = next((value for value, words in _MEANT.items() if word in words), "true or false")
        raise ValueRefusedError(_shown(key, text), meant)
    return word == "true"


def _whole_number(key: Key, text: str) -> int:
    low, high = _LIMITS[key.type]
    low = low if key.minimum is None else int(key.minimum)
    high = high if key.maximum is None else int(key.maximum)
    number = int(text) if _INTEGER.fullmatch(text.strip()) else None
    if number is None or not low <= number <= high or (number == 0 and key.nonzero):
        raise ValueRefusedError(*refused_number(key, text, low, high))
    return number


def _fraction(key: Key, text: str) -> float:
    example = "" if key.default is None else f", for example {key.default}"
    try:
        number = float(text)
    except ValueError:
        raise ValueRefusedError(_shown(key, text), f"a number{example}") from None
    low = float("-inf") if key.minimum is None else key.minimum
    high = float("inf") if key.maximum is None else key.maximum
    if not low <= number <= high:
        raise ValueRefusedError(_shown(key, text), f"a number from {low:g} to {high:g}{example}")
    return number


def _items(key: Key, text: str) -> tuple[str, ...]:
    items = tuple(dict.fromkeys(item for item in (piece.strip() for piece in text.split(",")) if item))
    wrong = [item for item in items if key.choices and item not in key.choices]
    if wrong:
        raise ValueRefusedError(repr(wrong[0]), "only " + " and ".join(key.choices))
    return items


def _choice(key: Key, text: str) -> str:
    word = text.strip()
    for choice in key.choices:
        if word == choice or (key.any_case and word.lower() == choice.lower()):
            return choice
    raise ValueRefusedError(_shown(key, text), _one_of(key.choices))


def _class_name(key: Key, text: str) -> str:
    name = text.strip()
    if not key.accepted_classes or name in key.accepted_classes:
        return name
    if not key.custom:
        raise ValueRefusedError(repr(name), f"{_one_of(key.accepted_classes)}; own Java classes are unsupported here")
    if _PYTHON_CLASS.fullmatch(name) is None:
        own = "a class of your own in Python, as package.module:Class; Java classes are unsupported here"
        raise ValueRefusedError(repr(name), f"{', '.join(key.accepted_classes)} or {own}{key.way_out}")
    return name


def _trimmed(_: Key, text: str) -> str:
    # Kafka's clients drop blanks around every value, which a file may well have at the end of a line (ConfigDef).
    return text.strip()


def _one_of(choices: tuple[str, ...]) -> str:
    return choices[0] if len(choices) == 1 else ", ".join(choices[:-1]) + " or " + choices[-1]


_PARSERS: dict[KeyType, Callable[[Key, str], Value]] = {
    KeyType.BOOL: _boolean,
    KeyType.INT: _whole_number,
    KeyType.LONG: _whole_number,
    KeyType.SHORT: _whole_number,
    KeyType.DOUBLE: _fraction,
    KeyType.LIST: _items,
    KeyType.STRING: _trimmed,
    KeyType.CLASS: _class_name,
    KeyType.PASSWORD: _trimmed,
    KeyType.ENUM: _choice,
}


def _check_form(form: ValueForm, value: Value) -> None:
    items = value if isinstance(value, tuple) else (str(value),)
    if form is ValueForm.PATTERNS:
        try:
            compile_list(items)
        except PatternError as error:
            raise ValueRefusedError(str(error), _regex_instead(error.text), MistakeKind.WRONG_PATTERN) from None
    elif form is ValueForm.SERVERS:
        if not items:
            raise ValueRefusedError("an empty list of servers", form.value)
        for item in items:
            _check_server(item)
    elif form is ValueForm.TOPIC:
        for item in items:
            _check_topic(item, form)
    elif form is ValueForm.TOPIC_PART_OR_NOTHING and value:
        _check_topic(str(value), form)
    elif form is ValueForm.LISTENERS:
        for item in items:
            parse_listener(item)
    elif form is ValueForm.HEADERS:
        parse_header_rules(str(value))
    elif form is ValueForm.FUNCTION and value and _PYTHON_CLASS.fullmatch(str(value)) is None:
        raise ValueRefusedError(repr(value), "a function in Python, as package.module:function")
    elif form is ValueForm.RESET:
        read_reset(str(value))
    elif form is ValueForm.START and value:
        read_start(str(value))
    elif form is ValueForm.BROKERS and items:
        raise ValueRefusedError(repr(", ".join(items)), form.value)


def _check_server(item: str) -> None:
    server = _SERVER.fullmatch(item)
    if server is not None and 0 < int(server[2]) < 2**16:
        return
    several = [part for part in re.split(r"[\s;|]+", item) if part]
    if len(several) > 1 and all(_SERVER.fullmatch(part) for part in several):
        raise ValueRefusedError(repr(item), f"commas between several brokers: {', '.join(several)}")
    if server is not None:
        raise ValueRefusedError(repr(item), "host:port, with a port from 1 to 65535")
    if _HOST.fullmatch(item):
        raise ValueRefusedError(f"{item!r} lacks a port", f"host:port, for example {item}:9092")
    raise ValueRefusedError(repr(item), "host:port, for example broker-1.example.com:9092")


_GLOB = re.compile(r"[\w.*-]+")


def regex_of_glob(item: str) -> str:
    """The expression that a shell's pattern such as `*.payments` probably means."""
    return ".*".join(re.sub(r"\.(?!$)", "[.]", part) for part in re.sub(r"\*+", "*", item).split("*"))


def _regex_instead(item: str) -> str:
    if item.startswith("*") and _GLOB.fullmatch(item):
        return f"{regex_of_glob(item)}, because names are matched by regular expressions, unlike a shell's patterns"
    return "a regular expression, for example orders.* for all names that begin with orders"


def _check_topic(item: str, form: ValueForm) -> None:
    legal = _TOPIC_CHARACTERS.fullmatch(item) is not None and len(item) <= _TOPIC_NAME_LIMIT
    if not legal or (form is ValueForm.TOPIC and item in {".", ".."}):
        raise ValueRefusedError(repr(item), form.value)
