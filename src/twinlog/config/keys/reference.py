"""Writes docs/configuration.md and docs/ignored-keys.md: the tables of keys, between the texts of `reference_text`.

Run as `python -m twinlog.config.keys.reference docs`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from twinlog.config.keys.client import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS, SHARED_KEYS
from twinlog.config.keys.connect import CONNECT_KEYS, ONE_FLOW_KEYS
from twinlog.config.keys.connector import CHECKPOINT_KEYS, SOURCE_KEYS
from twinlog.config.keys.key import Effect, Key, KeyType, UpdateMode, ValueForm
from twinlog.config.keys.process import PROCESS_KEYS
from twinlog.config.keys.reference_text import DIFFERENCES, END, IGNORED, INTRODUCTION, RULES
from twinlog.config.keys.security import SECURITY_KEYS
from twinlog.config.keys.table import worker_file_keys
from twinlog.config.keys.twinlog import TWINLOG_KEYS
from twinlog.config.keys.worker import WORKER_KEYS

_FLOW = "Written at top level or as `A->B.KEY`."
_CLIENTS = "Written as `alias.consumer.KEY`, `alias.producer.KEY` or `alias.admin.KEY`."
_WORKER = "Worker"
_WORKER_FILE = "File of a Connect worker"

_SECTIONS: tuple[tuple[str, str, tuple[Key, ...]], ...] = (
    ("Whole process", "Written at top level.", PROCESS_KEYS),
    ("twinlog's own", _FLOW, TWINLOG_KEYS),
    ("Mirroring topics", _FLOW, SOURCE_KEYS),
    ("One flow only", "Written as `A->B.KEY`.", ONE_FLOW_KEYS),
    ("Groups, checkpoints, heartbeats", _FLOW, CHECKPOINT_KEYS),
    ("Connectors in general", _FLOW, CONNECT_KEYS),
    (
        "Connection and security",
        "Written at top level, as `alias.KEY`, or below `alias.consumer.`, `alias.producer.` or `alias.admin.`.",
        SECURITY_KEYS,
    ),
    ("Every client", _CLIENTS, SHARED_KEYS),
    ("Consumer", "Written as `alias.consumer.KEY`.", CONSUMER_KEYS),
    ("Producer", "Written as `alias.producer.KEY`, or `A->B.producer.override.KEY`.", PRODUCER_KEYS),
    ("Admin client", "Written as `alias.admin.KEY`.", ADMIN_KEYS),
    (
        _WORKER,
        (
            "Written as `alias.KEY`, with the alias of the target. Names that begin with `offset.storage`, "
            "`config.storage`, `status.storage`, `task`, `worker` or name a converter also count at top level."
        ),
        WORKER_KEYS,
    ),
    (
        _WORKER_FILE,
        (
            "Written in the file that `twinlog connect` takes, beside the keys of connection and security, "
            "`producer.KEY`, and `twinlog.KEY`, which counts for every connector."
        ),
        tuple(key for key in worker_file_keys() if key not in TWINLOG_KEYS),
    ),
)

_IN_A_WORKER = {key.name for key in worker_file_keys() if key.effect is Effect.WORKS}
_ONLY_IN_A_WORKER = (
    f"Works only in the [file of a Connect worker](configuration.md#{_WORKER_FILE.lower().replace(' ', '-')})."
)
_OF_BROKERS = "Read by brokers, which check tokens."
_OWN = ", or `package.module:Class`"
_TAKES = {UpdateMode.AT_ONCE: "**at once**", UpdateMode.PAUSE: "**pause**", UpdateMode.RESTART: "restart"}
_FORMS = {
    ValueForm.TOPIC: "topic name",
    ValueForm.TOPIC_PART_OR_NOTHING: "part of a topic name, or empty",
    ValueForm.LISTENERS: "`http://host:port` or `https://host:port` entries",
    ValueForm.RESET: "`earliest`, `latest`, `none`, or `by_duration:` and an ISO 8601 duration",
    ValueForm.START: "`earliest`, `latest`, a moment as `2026-11-01T00:00:00Z`, or a duration as `P7D`",
    ValueForm.FUNCTION: "`package.module:function`",
    ValueForm.BROKERS: "an empty text",
}
_TYPES = {
    KeyType.BOOL: "true, false",
    KeyType.DOUBLE: "number",
    KeyType.LIST: "list",
    KeyType.STRING: "text",
    KeyType.CLASS: "class",
    KeyType.PASSWORD: "secret",
    KeyType.ENUM: "text",
}


def pages() -> Mapping[str, str]:
    """The text of each page by its path below docs/."""
    return {"configuration.md": render(), "ignored-keys.md": render_ignored()}


def render() -> str:
    """The page of keys that take effect, as Markdown."""
    differences = (f"| {' | '.join(cells)} |\n" for cells in DIFFERENCES)
    parts = [INTRODUCTION, *differences, RULES]
    for title, where, keys in _sections():
        works = [key for key in keys if key.effect is Effect.WORKS]
        again = [key for key in works if title == _WORKER_FILE and _is_told(key)]
        works = [key for key in works if key not in again]
        # A worker's own file is read once.
        changed = title != _WORKER_FILE and any(key.update_mode is not UpdateMode.RESTART for key in works)
        parts.append(f"\n## {title}\n\n{where}\n\n")
        parts.append(f"| key | value | default |{' changed |' if changed else ''} meaning |\n")
        parts.append("|---" * (4 + changed) + "|\n")
        parts.extend(_row(key, changed=changed) for key in sorted(works, key=lambda key: key.name))
        if again:
            names = ", ".join(f"`{name}`" for name in sorted(key.name for key in again))
            parts.append(f"\nThese keys have the meaning and the default of the tables above: {names}.\n")
    return "".join((*parts, END))


def render_ignored() -> str:
    """The page of keys without effect, as Markdown: a table for each place, with a row for each reason."""
    parts = [IGNORED]
    above: set[tuple[str, str]] = set()
    for title, where, keys in _sections():
        reasons: dict[str, list[str]] = {}
        again = []
        for key in sorted(keys, key=lambda key: key.name):
            if key.effect is Effect.WORKS:
                continue
            reason = _reason(key, title)
            if title == _WORKER_FILE and (key.name, reason) in above:
                again.append(f"`{key.name}`")
            else:
                reasons.setdefault(reason, []).append(f"`{key.name}`")
            if title == _WORKER:
                above.add((key.name, reason))
        if reasons:
            parts.append(f"\n## {title}\n\n{where}\n\n| keys | reason or purpose |\n|---|---|\n")
            parts.extend(f"| {', '.join(names)} | {_escaped(reason)} |\n" for reason, names in reasons.items())
        if again:
            parts.append(f"\nThese keys have the reasons of the section Worker: {', '.join(again)}.\n")
    return "".join(parts).replace("](#", "](configuration.md#")


def _sections() -> Iterator[tuple[str, str, list[Key]]]:
    """The keys of each place; keys that all clients have are told once."""
    shared = {key.name for key in SHARED_KEYS}
    for title, where, keys in _SECTIONS:
        told = shared if keys in (CONSUMER_KEYS, PRODUCER_KEYS, ADMIN_KEYS) else set()
        yield title, where, [key for key in keys if key.name not in told]


def _is_told(key: Key) -> bool:
    """Whether a table for files of MirrorMaker 2 has the same row for a key of a worker's file."""
    earlier = (*PROCESS_KEYS, *SHARED_KEYS, *WORKER_KEYS)
    same = [one for one in earlier if (one.name, one.default, one.effect) == (key.name, key.default, Effect.WORKS)]
    own = key.in_worker_file is not None and key.in_worker_file.doc != ""
    return any(one.doc == key.doc or (one in SHARED_KEYS and not own) for one in same)


def _reason(key: Key, title: str) -> str:
    if key.effect is Effect.BROKER:
        return _OF_BROKERS
    if title in {"Whole process", _WORKER} and key.name in _IN_A_WORKER:
        return _ONLY_IN_A_WORKER
    return key.doc


def _row(key: Key, *, changed: bool) -> str:
    default = "" if key.default is None else f"`{_escaped(key.default)}`" if key.default else "(empty)"
    name = f"`{key.name}`, `{key.name}.PATTERN`" if key.per_topic else f"`{key.name}`"
    cells = [name, _escaped(_value(key)), default]
    if changed:
        cells.append(_TAKES[key.update_mode])
    cells.append(_escaped(key.doc + _instead(key)))
    return "| " + " | ".join(cells) + " |\n"


def _instead(key: Key) -> str:
    found = key.instead
    if found is None:
        return ""
    written = ", ".join(f"`{value}`" for value in found.written) or f"A number above {_number(key.maximum or 0)}"
    several = "are" if len(found.written) > 1 else "is"
    return f" {written} {several} read as `{found.value}`, with a warning."


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.6g}"


def _value(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.accepted_classes:
        short = [name for name in key.accepted_classes if "." not in name]
        shown = short or ["the default" if name == key.default else f"`{name}`" for name in key.accepted_classes]
        return ", ".join(shown) + (", or a class of Kafka" if short else "") + (_OWN if key.custom else "")
    if key.form is not None:
        return _FORMS.get(key.form, key.form.value.removesuffix(", separated by commas"))
    parts = [_TYPES.get(key.type, "whole number")]
    if key.minimum is not None:
        least = _number(key.minimum)
        parts.append(f"from {least}" if key.maximum is None else f"{least} to {_number(key.maximum)}")
    if key.nonzero:
        parts.append("not 0")
    return ", ".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def write_pages(docs: Path) -> None:
    """Write all pages below `docs`."""
    for name, text in pages().items():
        (docs / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
