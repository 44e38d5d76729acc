"""Dataclasses as JSON, by their annotations: messages of the lease, and reports for other programs.

A message is an object of its fields, and a value in a message is an array of its fields. The codec is strict in both
directions: a message with a missing field, an extra field or a wrong type is refused. The error names message and
field. Rows of plain values, of which a report has thousands, are checked by a single look at their types.

In a report for other programs each value is an object of its fields. Its reader ignores unknown fields and gives
missing fields their defaults, because the writer may have another version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import product
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from twinlog.errors import MessageError

INLINE = {"inline": True}
"""The metadata of a field with a dataclass whose fields are written in place of this field."""

LINE_ONLY = {"line only": True}
"""The metadata of a field that messages have, and reports for other programs lack."""

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


class ReportCodec:
    """Writes and reads reports of a class for other programs; each value is an object of its fields."""

    def __init__(self, cls: type) -> None:
        self._form = _form(cls, named=True)

    def encode(self, report: Any) -> Any:
        return report if self._form.encode is None else self._form.encode(report)

    def decode(self, value: Any) -> Any:
        """Return the report of a decoded JSON object. Raises MessageError."""
        try:
            return self._form.decode(value)
        except _WrongError as error:
            raise MessageError(f"{error.path.lstrip('.')}: {error.what}") from None


def _hints(cls: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass or a named tuple in their order, with their types."""
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else cls._fields
    return [(name, hints[name]) for name in names]


def _form(hint: Any, *, named: bool = False) -> _TypeCodec:
    """The codec of a type: plain, optional, a list, a tuple, a dictionary of texts, a dataclass or a named tuple."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    if hint in _PLAIN:
        return _plain(_PLAIN[hint])
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _plain((str,))
    if origin in (UnionType, Union):
        return _optional([_form(arg, named=named) for arg in args])
    if origin is list:
        return _many(_form(args[0], named=named), list)
    if origin is dict:
        return _dictionary(_form(args[1], named=named))
    if origin is tuple:
        if args[1:] == (...,):
            return _many(_form(args[0], named=named), tuple)
        return _row([(str(at), _form(arg, named=named)) for at, arg in enumerate(args)], lambda *values: values, None)
    if not is_dataclass(hint):
        return _row([(name, _form(inner)) for name, inner in _hints(hint)], hint, None)
    columns = _columns(hint, named=named)
    values = attrgetter(*(column.path for column in columns))
    fetch = values if len(columns) > 1 else lambda value: (values(value),)
    if named:
        return _object(columns, hint, fetch)
    return _row([(column.name, column.form) for column in columns], _maker(hint), fetch)


@dataclass(frozen=True, slots=True)
class _Column:
    """A written field: its name, its attribute, and the codec of its values. `inside` is the inline field around it."""

    name: str
    path: str
    form: _TypeCodec
    inside: str | None = None


def _columns(cls: Any, *, named: bool) -> list[_Column]:
    found: list[_Column] = []
    hints = get_type_hints(cls)
    for field in fields(cls):
        if "inline" in field.metadata:
            found += [
                _Column(column.name, f"{field.name}.{column.path}", column.form, field.name)
                for column in _columns(hints[field.name], named=named)
            ]
        elif not (named and "line only" in field.metadata):
            found.append(_Column(field.name, field.name, _form(hints[field.name], named=named)))
    return found


def _maker(cls: Any) -> Callable[..., Any]:
    """Makes a value of all written fields in their order."""
    hints = get_type_hints(cls)
    inline = [at for at, field in enumerate(fields(cls)) if "inline" in field.metadata]
    if not inline:
        make: Callable[..., Any] = cls
        return make
    (begin,) = inline
    inner = hints[fields(cls)[begin].name]
    end = begin + len(fields(inner))
    return lambda *values: cls(*values[:begin], inner(*values[begin:end]), *values[end:])


def _object(columns: Sequence[_Column], cls: Any, values: Callable[[Any], Any]) -> _TypeCodec:
    """A value as the object of its fields."""
    hints = get_type_hints(cls)
    inline = {column.inside: hints[column.inside] for column in columns if column.inside is not None}
    names = [column.name for column in columns]
    encodes = [(column.name, column.form.encode) for column in columns if column.form.encode is not None]

    def encode(value: Any) -> Any:
        found = dict(zip(names, values(value), strict=True))
        for name, encode_one in encodes:
            found[name] = encode_one(found[name])
        return found

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise _WrongError("", _not(value, (dict,)))
        found: dict[str | None, dict[str, Any]] = {None: {}, **{name: {} for name in inline}}
        for column in columns:
            if column.name in value:
                try:
                    found[column.inside][column.name] = column.form.decode(value[column.name])
                except _WrongError as error:
                    raise _WrongError(f".{column.name}{error.path}", error.what) from None
        try:
            return cls(**found[None], **{name: make(**found[name]) for name, make in inline.items()})
        except TypeError as error:
            raise _WrongError("", str(error)) from None

    return _TypeCodec(encode, decode)


def _plain(types: tuple[type, ...]) -> _TypeCodec:
    def decode(value: Any) -> Any:
        if type(value) in types:
            return value
        raise _WrongError("", _not(value, types))

    return _TypeCodec(None, decode, types)


def _optional(forms: Sequence[_TypeCodec]) -> _TypeCodec:
    if all(form.plain for form in forms):
        return _plain(tuple(type_ for form in forms for type_ in form.plain))
    (form,) = [form for form in forms if form.plain != (NoneType,)]
    encode, decode = form.encode, form.decode
    return _TypeCodec(
        None if encode is None else lambda value: None if value is None else encode(value),
        lambda value: None if value is None else decode(value),
    )


def _many(form: _TypeCodec, make: Callable[[list[Any]], Any]) -> _TypeCodec:
    encode, decode = form.encode, form.decode

    def decode_all(value: Any) -> Any:
        _require_array(value)
        found: list[Any] = []
        try:
            found.extend(map(decode, value))
        except _WrongError as error:
            raise _WrongError(f"[{_reached(value, decode)}]{error.path}", error.what) from None
        return make(found)

    return _TypeCodec(None if encode is None else lambda values: list(map(encode, values)), decode_all)


def _dictionary(form: _TypeCodec) -> _TypeCodec:
    """A dictionary of plain values by texts."""
    assert form.plain

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise _WrongError("", _not(value, (dict,)))
        for name, one in value.items():
            if type(one) not in form.plain:
                raise _WrongError(f"[{name!r}]", _not(one, form.plain))
        return value

    return _TypeCodec(None, decode)


def _reached(values: Sequence[Any], decode: Callable[[Any], Any]) -> int:
    """The index of the first wrong value."""
    for at, value in enumerate(values):
        try:
            decode(value)
        except _WrongError:
            return at
    return len(values)


def _row(
    columns: Sequence[tuple[str, _TypeCodec]], make: Callable[..., Any], values: Callable[[Any], Any] | None
) -> _TypeCodec:
    """A value as the array of its fields.

    `values` takes the fields out of the value, None if the value is a tuple itself.
    """
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
