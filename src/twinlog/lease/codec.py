"""Dataclasses as JSON, by their annotations.

A message is an object of its fields, and a value in a message is an array of its fields. The codec is strict in both
directions: a message with a missing field, an extra field or a wrong type is refused. The error names message and
field. Rows of plain values, of which a report has thousands, are checked by a single look at their types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import product
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from twinlog.errors import MessageError

_PLAIN: dict[Any, tuple[type, ...]] = {
    int: (int,),
    str: (str,),
    bool: (bool,),
    float: (float, int),
    NoneType: (NoneType,),
}
"""The types that stay as they are in JSON, each with the types of JSON in which it may arrive."""


class _WrongError(Exception):
    """An error (`what`) in the value at `path`; callers extend `path` as the error passes up."""

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        self.what = what


@dataclass(frozen=True, slots=True)
class _TypeCodec:
    """The codec of a type.

    `encode` is None if values stay as they are; `plain` then has the types in JSON of a plain type.
    """

    encode: Callable[[Any], Any] | None
    decode: Callable[[Any], Any]
    plain: tuple[type, ...] = ()


class Codec:
    """Writes and reads messages of a class."""

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self._fields = [(name, _form(hint)) for name, hint in _hints(cls)]
        self._names = {name for name, _ in self._fields}

    def encode(self, message: Any) -> dict[str, Any]:
        found = {}
        for name, form in self._fields:
            value = getattr(message, name)
            found[name] = value if form.encode is None else form.encode(value)
        return found

    def decode(self, value: dict[str, Any]) -> Any:
        """Return the message of a decoded JSON object. Raises MessageError."""
        name = self._cls.__name__
        if value.keys() != self._names:
            wrong = [f"lacks field {field}" for field in sorted(self._names - value.keys())]
            wrong += [f"has unknown field {field}" for field in sorted(value.keys() - self._names)]
            raise MessageError(f"message {name} {', '.join(wrong)}")
        found = []
        for field, form in self._fields:
            try:
                found.append(form.decode(value[field]))
            except _WrongError as error:
                raise MessageError(f"message {name}, field {field}{error.path}: {error.what}") from None
        return self._cls(*found)


def _hints(cls: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass or a named tuple in their order, with their types."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else cls._fields
    return [(name, hints[name]) for name in names]


def _form(hint: Any) -> _TypeCodec:
    """The codec of a type: plain, optional, a tuple of any or of a fixed length, a dataclass or a named tuple."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint in _PLAIN:
        return _plain(_PLAIN[hint])
    if get_origin(hint) is Literal:
        return _plain((str,))
    if get_origin(hint) in (UnionType, Union):
        return _optional(hint)
    if get_origin(hint) is tuple:
        args = get_args(hint)
        if args[1:] == (...,):
            return _many(_form(args[0]))
        return _row([(str(at), arg) for at, arg in enumerate(args)], lambda *values: values, None)
    columns = _hints(hint)
    if not is_dataclass(hint):
        return _row(columns, hint, None)
    make: Any = hint
    values = attrgetter(*(name for name, _ in columns))
    return _row(columns, make, values if len(columns) > 1 else lambda value: (values(value),))


def _plain(types: tuple[type, ...]) -> _TypeCodec:
    def decode(value: Any) -> Any:
        if type(value) in types:
            return value
        raise _WrongError("", _not(value, types))

    return _TypeCodec(None, decode, types)


def _optional(hint: Any) -> _TypeCodec:
    forms = [_form(arg) for arg in get_args(hint)]
    if all(form.plain for form in forms):
        return _plain(tuple(type_ for form in forms for type_ in form.plain))
    (form,) = [form for form in forms if form.plain != (NoneType,)]
    encode, decode = form.encode, form.decode
    return _TypeCodec(
        None if encode is None else lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


def _many(form: _TypeCodec) -> _TypeCodec:
    encode, decode = form.encode, form.decode

    def decode_all(value: Any) -> Any:
        _require_array(value)
        found: list[Any] = []
        try:
            found.extend(map(decode, value))
        except _WrongError as error:
            raise _WrongError(f"[{_reached(value, decode)}]{error.path}", error.what) from None
        return tuple(found)

    return _TypeCodec(None if encode is None else lambda values: list(map(encode, values)), decode_all)


def _reached(values: Sequence[Any], decode: Callable[[Any], Any]) -> int:
    """The index of the first wrong value."""
    for at, value in enumerate(values):
        try:
            decode(value)
        except _WrongError:
            return at
    return len(values)


def _row(hints: Sequence[tuple[str, Any]], make: Callable[..., Any], values: Callable[[Any], Any] | None) -> _TypeCodec:
    """A value as the array of its fields.

    `values` takes the fields out of the value, None if the value is a tuple itself.
    """
    columns = [(name, _form(hint)) for name, hint in hints]
    encodes = [form.encode for _, form in columns]
    flat = all(form.plain for _, form in columns)
    usual = set(product(*(form.plain for _, form in columns))) if flat else set()

    def encode(value: Any) -> Any:
        row = value if values is None else values(value)
        return [one if way is None else way(one) for one, way in zip(row, encodes, strict=True)]

    def decode(value: Any) -> Any:
        if flat and type(value) is list and tuple(map(type, value)) in usual:
            return make(*value)
        _require_array(value)
        if len(value) != len(columns):
            names = ", ".join(name for name, _ in columns)
            raise _WrongError("", f"has {len(value)} values, not {len(columns)} ({names})")
        found = []
        for (name, form), one in zip(columns, value, strict=True):
            if type(one) in form.plain:
                found.append(one)
                continue
            try:
                found.append(form.decode(one))
            except _WrongError as error:
                raise _WrongError(f".{name}{error.path}", error.what) from None
        return make(*found)

    as_it_is = not any(encodes)
    return _TypeCodec(values if as_it_is else encode, decode)


def _require_array(value: Any) -> None:
    if type(value) is not list:
        raise _WrongError("", _not(value, (list,)))


def _not(value: Any, types: Sequence[type]) -> str:
    wanted = " or ".join("null" if type_ is NoneType else type_.__name__ for type_ in dict.fromkeys(types))
    return f"{value!r:.40} is not {wanted}"
