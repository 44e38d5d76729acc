"""Pages as HTML by templates, or as JSON: both are made from the same values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any
from urllib.parse import quote

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape
from starlette.responses import Response

from twinlog.errors.message_ids import ID
from twinlog.model.amounts import counted, shown_age, shown_bytes, shown_count, shown_moment
from twinlog.ui.assets import ConsoleAssets

TEMPLATES = Path(__file__).parent / "templates"

UNKNOWN = "?"
"""An unknown figure, as in the tables of the commands."""

NAVIGATION = (
    ("overview", "Overview", "/"),
    ("topics", "Topics", "/topics"),
    ("groups", "Groups", "/groups"),
    ("readiness", "Readiness", "/readiness"),
    ("records", "Records", "/records"),
    ("connectors", "Connectors", "/connectors"),
    ("migration", "Migrate", "/migration"),
)
"""The sections of the console: name, title, and path below the root."""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A page: its template, the section that the navigation marks, its title, and its values, which are values of JSON.

    `live` names the readings that the page follows, `FLOW` or `KIND:FLOW`; a reading replaces its block `live`. This
    block is `shared` if it is the same for every session and changes only with these readings.
    """

    template: str
    section: str
    title: str
    data: Mapping[str, Any]
    status: int = 200
    live: tuple[str, ...] = ()
    shared: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The surroundings of a page: the logged-in user, the token of its forms, and the URL of the page itself."""

    user: str
    token: str
    url: str
    needs_login: bool
    version: str
    """The versions of the readings that the page shows."""


class CompiledTemplates(BytecodeCache):
    """The compiled templates of all consoles of this process."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_COMPILED = CompiledTemplates()


class PageRenderer:
    """Renders pages; `root` is the path of the console on its server."""

    def __init__(self, root: str, assets: ConsoleAssets) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            bytecode_cache=_COMPILED,
        )
        self._environment.globals.update(root=root, asset=assets.url, navigation=NAVIGATION)
        self._environment.filters.update(
            figure=_figure,
            at_most=_at_most,
            size=_size,
            age=_age,
            moment=_moment,
            prose=prose,
            counted=counted,
            rate=_rate,
            brief=brief,
            short=short,
            q=quoted,
        )

    def html(self, page: ConsolePage, frame: PageFrame, *, partial: bool) -> Response:
        """The page, or only its block `live`."""
        template = self._environment.get_template(page.template)
        values = {"page": page.data, "title": page.title, "section": page.section, "live": page.live, "frame": frame}
        if partial and "live" in template.blocks:
            text = "".join(template.blocks["live"](template.new_context(values)))
        else:
            text = template.render(values)
        headers = {"Vary": "HX-Request, Accept, Cookie", **page.headers}
        # A name that Kafka's library decoded in part has half characters.
        return Response(text.encode("utf-8", "replace"), page.status, headers, media_type="text/html")

    def json(self, page: ConsolePage) -> Response:
        """The values of a page."""
        headers = {"Vary": "HX-Request, Accept, Cookie", **page.headers}
        return Response(json.dumps(page.data), page.status, headers, media_type="application/json")


def prose(text: str) -> Markup:
    """A text of a message: its code in backticks is shown as code, its links as their texts, ids as links to their
    meaning."""
    parts = []
    for number, part in enumerate(text.split("`")):
        parts.append(Markup("<code>{}</code>").format(part) if number % 2 else _with_ids(_without_links(part)))
    return Markup("").join(parts)


def _without_links(text: str) -> str:
    """`[text](address)` as its text: the addresses are those of the documentation's files."""
    found, rest = "", text
    while (begin := rest.find("[")) >= 0 and (middle := rest.find("](", begin)) >= 0:
        end = rest.find(")", middle)
        if end < 0:
            break
        found += rest[:begin] + rest[begin + 1 : middle]
        rest = rest[end + 1 :]
    return found + rest


def _with_ids(text: str) -> Markup:
    found, at = Markup(""), 0
    for match in ID.finditer(text):
        found += escape(text[at : match.start()]) + Markup('<b class="id">{}</b>').format(match[0])
        at = match.end()
    return found + escape(text[at:])


def quoted(name: str) -> str:
    """A name as the value of a parameter of a URL."""
    return quote(name, safe="", errors="replace")


def brief(value: float | None) -> str:
    """A figure for a narrow place: up to 999,999 whole, above in millions and more."""
    if value is None or abs(value) < 999_999.5:
        return _figure(value)
    for unit in ("M", "G", "T"):
        value /= 1e3 if unit != "M" else 1e6
        if abs(value) < 999.95:
            break
    return f"{value:,.1f} {unit}"


def short(text: str, most: int) -> str:
    """A text of at most `most` characters: the middle of a longer text is left out, as names begin and end alike."""
    if len(text) <= most:
        return text
    end = (most - 1) // 2
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _at_most(value: int | None, exact: bool = False) -> str:
    """A figure that is a maximum, unless it is `exact`."""
    return UNKNOWN if value is None else shown_count(value, exact=exact)


def _rate(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def _size(value: float | None) -> str:
    return UNKNOWN if value is None else shown_bytes(value)


def _age(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else shown_age(seconds)


def _moment(at_ms: int | None) -> Markup:
    if at_ms is None:
        return Markup(UNKNOWN)
    iso = shown_moment(at_ms - at_ms % 1000)
    if not iso.endswith("Z"):
        return escape(f"{at_ms} ms")
    return Markup('<time datetime="{}">{}</time>').format(iso, iso.replace("T", " ").replace("Z", " UTC"))
