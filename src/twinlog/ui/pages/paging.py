"""Long lists: searched, sorted and paged on the server, so that a page has the same weight for any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

Row = dict[str, Any]
T = TypeVar("T")

ROWS = 50
_LONGEST = 250
_MOST_PAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The part of a list that a user chose: rows with the text `search`, by the column `sort`, and a page from 1."""

    search: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 1

    @classmethod
    def of(cls, query: QueryParams, columns: Sequence[str]) -> ListQuery:
        """The parameters of a URL; unknown columns and malformed numbers count as their defaults."""
        sort, page = query.get("sort", ""), query.get("page", "")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 8 else 1
        return cls(
            query.get("search", "")[:_LONGEST].strip(),
            sort if sort in columns else columns[0],
            query.get("order", "") == "desc",
            max(1, min(number, _MOST_PAGES)),
        )


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column that a list can be sorted by; `key` is its value in a row, and rows with None come last."""

    name: str
    title: str
    number: bool = False


def paged(
    rows: Sequence[Row], query: ListQuery, columns: Sequence[ListColumn], text: str, fixed: Mapping[str, str]
) -> dict[str, Any]:
    """The page of a list as values of JSON: rows whose field `text` has the search, and links to the other pages.

    `fixed` are the parameters of the URL that every link keeps.
    """
    wanted = query.search.casefold()
    found = [row for row in rows if wanted in str(row[text]).casefold()] if wanted else list(rows)
    found = _sorted(found, query, text)
    pages = max(1, -(-len(found) // ROWS))
    page = min(query.page, pages)
    link = _linking(query, fixed)
    return {
        "rows": found[(page - 1) * ROWS : page * ROWS],
        "total": len(rows),
        "matching": len(found),
        "page": page,
        "pages": pages,
        "search": query.search,
        "fixed": dict(fixed),
        "columns": [
            {
                "name": one.name,
                "title": one.title,
                "number": one.number,
                "order": ("descending" if query.descending else "ascending") if one.name == query.sort else "none",
                "link": link(sort=one.name, descending=one.name == query.sort and not query.descending),
            }
            for one in columns
        ],
        "previous": link(page=page - 1) if page > 1 else None,
        "next": link(page=page + 1) if page < pages else None,
        "sort": query.sort,
        "order": "desc" if query.descending else "asc",
    }


def _sorted(rows: Sequence[Row], query: ListQuery, text: str) -> list[Row]:
    known = [row for row in rows if row.get(query.sort) is not None]
    unknown = [row for row in rows if row.get(query.sort) is None]
    known.sort(key=lambda row: str(row[text]))
    known.sort(key=lambda row: _key(row[query.sort]), reverse=query.descending)
    return [*known, *unknown]


def _key(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value).casefold())


def _linking(query: ListQuery, fixed: Mapping[str, str]) -> Callable[..., str]:
    def link(*, sort: str = "", descending: bool | None = None, page: int = 1) -> str:
        down = query.descending if descending is None else descending
        parts = {**fixed, "search": query.search, "sort": sort or query.sort, "order": "desc" if down else ""}
        parts["page"] = str(page) if page > 1 else ""
        return "?" + urlencode({name: value for name, value in parts.items() if value}, errors="replace")

    return link
