"""The pages of a migration: two addresses, the choice of topics and groups, the plan with its file, and the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.errors import RequestError
from twinlog.ui.audit import audit
from twinlog.ui.migration.draft import MECHANISMS, PROTOCOLS, ClusterAddress, MigrationDraft
from twinlog.ui.migration.migrations import Migration, MigrationStore
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

T = TypeVar("T")

MOST_BOXES = 2_000
"""The most topics and groups with a box each; above, a migration takes all of them."""

MOST_ROWS = 100
"""Rows of each part of a plan; `twinlog plan` prints all."""


class MigrationPages:
    """`/ui/migration`, `/ui/migration/look`, `/ui/migration/choose`, `/ui/migration/plan`, and `/ui/migration/run`."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/migration", self.show),
            *page_routes(self._site, "/migration/look", None, self.begin_migration),
            *page_routes(self._site, "/migration/choose", self.choose),
            *page_routes(self._site, "/migration/plan", self.show_plan, self.plan),
            *page_routes(self._site, "/migration/run", None, self.run),
        ]

    async def show(self, visit: Visit) -> ConsolePage:
        """The form for both addresses."""
        data = {
            "offered": self._site.migrations is not None and self._site.settings.actions,
            "protocols": list(PROTOCOLS),
            "mechanisms": list(MECHANISMS),
        }
        return ConsolePage("migration.html", "migration", "Migrate", data)

    async def begin_migration(self, visit: Visit) -> Response:
        """Read both clusters, and lead to the choice of topics and groups."""
        store = self._store()
        source, target = ClusterAddress.of(visit.form, "source"), ClusterAddress.of(visit.form, "target")
        if source.alias == target.alias:
            raise RequestError(400, f"Both clusters are named {source.alias}: give them two names.")
        found = await self._call(lambda: store.begin_migration(MigrationDraft(source, target)))
        return self._to("choose", found)

    async def choose(self, visit: Visit) -> ConsolePage:
        """The topics and groups of the source, and the questions of a migration."""
        one = self._store().find(visit.query("id"))
        found, draft = one.found, one.draft
        boxes = len(found.topics) + len(found.groups) <= MOST_BOXES
        data = {
            "id": one.id,
            "from": draft.source.alias,
            "to": draft.target.alias,
            "boxes": boxes,
            "topics": [
                {
                    "topic": topic.name,
                    "partitions": topic.partitions,
                    "records": topic.records,
                    "bytes": topic.bytes,
                    "there": topic.there,
                    "ticked": draft.topics is None or topic.name in draft.topics,
                }
                for topic in (found.topics if boxes else ())
            ],
            "groups": [
                {"group": group, "ticked": draft.groups is None or group in draft.groups}
                for group in (found.groups if boxes else ())
            ],
            "topic_count": len(found.topics),
            "group_count": len(found.groups),
            "left_out": found.left_out,
            "acls": found.acls,
            "unread": list(found.unread),
            "keeps_names": draft.keeps_names,
            "syncs_groups": draft.syncs_groups,
            "syncs_acls": draft.syncs_acls,
        }
        return ConsolePage("migration_choose.html", "migration", f"Migrate {draft.flow}", data)

    async def plan(self, visit: Visit) -> Response:
        """Plan the choice, and lead to the page of the plan."""
        store = self._store()
        one = store.find(visit.form.get("id", ""))
        found = one.found
        topics, groups = visit.ticked("topic"), visit.ticked("group")
        if visit.form.get("all") != "yes":
            unknown = set(topics) - {topic.name for topic in found.topics} or set(groups) - set(found.groups)
            if unknown:
                raise RequestError(400, f"{sorted(unknown)[0]!r} is unknown: look at the clusters again.")
            if not topics:
                raise RequestError(400, "Tick a topic, or several.")
        everything = visit.form.get("all") == "yes"
        syncs = visit.form.get("groups") == "yes" and (everything or bool(groups) or not found.groups)
        draft = replace(
            one.draft,
            topics=None if everything or len(topics) == len(found.topics) else topics,
            groups=None if everything or len(groups) == len(found.groups) or not groups else groups,
            keeps_names=visit.form.get("names") == "kept",
            syncs_groups=syncs,
            syncs_acls=visit.form.get("acls") == "yes",
        )
        await self._call(lambda: store.make_plan(one, draft))
        return self._to("plan", one)

    async def show_plan(self, visit: Visit) -> ConsolePage:
        """The plan, its file, and the forms that keep and run the file."""
        one = self._store().find(visit.query("id"))
        plan = one.plan
        if plan is None:
            raise RequestError(404, "The migration lacks a plan: choose topics first.")
        data = {
            "id": one.id,
            "flow": one.draft.flow,
            "from": one.draft.source.alias,
            "to": one.draft.target.alias,
            "problems": [problem.line for problem in plan.problems][:MOST_ROWS],
            "notes": list(plan.notes)[:MOST_ROWS],
            "records": plan.records,
            "bytes": plan.bytes,
            "seconds": plan.seconds,
            "rate": int(plan.rate),
            "creates": len(plan.create),
            "settings": len(plan.settings),
            "acls": len(plan.acls),
            "copies": [topic.as_json() for topic in plan.copy[:MOST_ROWS]],
            "more_copies": max(0, len(plan.copy) - MOST_ROWS),
            "groups": [group.as_json() for group in plan.groups[:MOST_ROWS]],
            "more_groups": max(0, len(plan.groups) - MOST_ROWS),
            "text": one.draft.text(hides=True),
            "file": None if one.file is None else str(one.file),
            "folder": str(self._store().home),
            "log": None if one.process is None else str(one.log),
            "process": _process(one),
        }
        return ConsolePage("migration_plan.html", "migration", f"Migrate {one.draft.flow}", data)

    async def run(self, visit: Visit) -> Response:
        """Keep the file, and with `mode` run also run it."""
        store = self._store()
        one = store.find(visit.form.get("id", ""))
        mode = visit.form.get("mode", "")
        if mode not in ("keep", "run"):
            raise RequestError(400, f"The action {mode!r} is unknown; it is keep or run.")
        if one.plan is None:
            raise RequestError(400, "The migration lacks a plan: choose topics first.")
        facts = {"flow": one.draft.flow}
        try:
            path = await self._call(lambda: store.keep_file(one))
            if mode == "run":
                await self._call(lambda: store.run(one))
        except Exception as error:
            audit(visit.user, visit.address, f"{mode} migration", **facts, outcome=type(error).__name__)
            raise
        audit(visit.user, visit.address, f"{mode} migration", **facts, file=path, outcome="done")
        if mode == "run":
            return RedirectResponse(f"{self._site.root}/readiness?flow={quoted(one.draft.flow)}", 303)
        return self._to("plan", one)

    def _store(self) -> MigrationStore:
        if self._site.migrations is None or not self._site.settings.actions:
            raise RequestError(403, "This console has no migrations: start `twinlog console` without --read-only.")
        return self._site.migrations

    def _to(self, page: str, one: Migration) -> Response:
        return RedirectResponse(f"{self._site.root}/migration/{page}?id={quoted(one.id)}", 303)

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._site.threads.act.run(call)


def _process(one: Migration) -> dict[str, Any] | None:
    """The process that runs the file; `code` is None while it runs."""
    if one.process is None:
        return None
    return {"pid": one.process.pid, "code": one.process.poll()}
