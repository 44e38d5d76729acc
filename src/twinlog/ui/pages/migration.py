"""The pages of a migration: two addresses, the choice of topics and groups, the plan with its file, and the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.errors import RequestError, TwinlogError
from twinlog.ui.audit import audit
from twinlog.ui.migration.draft import MECHANISMS, PROTOCOLS, ClusterAddress, MigrationDraft
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes, with_mistake

if TYPE_CHECKING:
    from twinlog.ui.migration.migrations import FoundClusters, Migration, MigrationStore

T = TypeVar("T")

MOST_BOXES = 2_000
"""The most topics and groups with a box each; above, a migration takes all of them."""

_NEW = {"source_alias": "source", "target_alias": "target"}
"""The fields of a form for a new migration."""

MODES = ("keep", "run", "stop", "forget")
"""The actions for a migration: write its file, run the file, end the process, drop the migration."""

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
        """The migrations with their states, and the form for both addresses of a further migration."""
        return self._addresses(_NEW)

    async def begin_migration(self, visit: Visit) -> ConsolePage | Response:
        """Read both clusters, and lead to the choice of topics and groups; a form with a mistake comes back."""
        store = self._store()
        try:
            draft = _new_draft(visit.form)
            found = await self._call(lambda: store.begin_migration(draft))
        except TwinlogError as error:
            return with_mistake(self._addresses(visit.form), error)
        return self._to("choose", found)

    async def choose(self, visit: Visit) -> ConsolePage:
        """The topics and groups of the source, and the questions of a migration."""
        one = self._store().find(visit.query("id"))
        return _choice(one, one.draft)

    async def plan(self, visit: Visit) -> ConsolePage | Response:
        """Plan the choice, and lead to the page of the plan; a form with a mistake comes back."""
        store = self._store()
        one = store.find(visit.form.get("id", ""))
        ticked = _ticked(one.draft, visit)
        try:
            draft = _checked(ticked, one.found)
            await self._call(lambda: store.make_plan(one, draft))
        except TwinlogError as error:
            return with_mistake(_choice(one, ticked), error)
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
            "draft": one.draft.digest,
            "folder": str(self._store().home),
            "log": None if one.run is None else str(one.run.log),
            "process": _process(one),
        }
        return ConsolePage("migration/plan.html", "migration", f"Migrate {one.draft.flow}", data)

    async def run(self, visit: Visit) -> Response:
        """Do an action of `MODES`; the form of a plan names the draft that its page shows."""
        store = self._store()
        one = store.find(visit.form.get("id", ""))
        mode, digest = visit.form.get("mode", ""), visit.form.get("draft", "")
        if mode not in MODES:
            raise RequestError(400, f"The action {mode!r} is unknown; it is {', '.join(MODES)}.")
        if mode in ("keep", "run") and one.plan is None:
            raise RequestError(400, "The migration lacks a plan: choose topics first.")
        actions: Mapping[str, Callable[[], object]] = {
            "keep": lambda: store.keep_file(one, digest),
            "run": lambda: store.run(one, digest),
            "stop": lambda: store.stop_run(one),
            "forget": lambda: store.forget_migration(one),
        }
        facts = {"flow": one.draft.flow}
        try:
            await self._call(actions[mode])
        except Exception as error:
            audit(visit.user, visit.address, f"{mode} migration", **facts, outcome=type(error).__name__)
            raise
        audit(visit.user, visit.address, f"{mode} migration", **facts, file=one.file or "-", outcome="done")
        if mode == "run":
            return RedirectResponse(f"{self._site.root}/readiness?flow={quoted(one.draft.flow)}", 303)
        return RedirectResponse(f"{self._site.root}/migration", 303) if mode == "forget" else self._to("plan", one)

    def _store(self) -> MigrationStore:
        reason, store = self._site.lacks_migrations, self._site.migrations
        if reason or store is None:
            raise RequestError(403, f"This console has no migrations: {reason}.")
        return store

    def _addresses(self, form: Mapping[str, str]) -> ConsolePage:
        """The migrations, and the form for both addresses with the values of a form, all but its passwords."""
        reason, store = self._site.lacks_migrations, self._site.migrations
        known = [] if reason or store is None else store.list_migrations()
        data = {
            "reason": reason or None,
            "migrations": [_row(one) for one in known],
            "protocols": list(PROTOCOLS),
            "mechanisms": list(MECHANISMS),
            "source": ClusterAddress.typed(form, "source"),
            "target": ClusterAddress.typed(form, "target"),
            "mistake": None,
        }
        return ConsolePage("migration/migration.html", "migration", "Migrate", data)

    def _to(self, page: str, one: Migration) -> Response:
        return RedirectResponse(f"{self._site.root}/migration/{page}?id={quoted(one.id)}", 303)

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._site.threads.migrations.run(call)


def _new_draft(form: Mapping[str, str]) -> MigrationDraft:
    """The draft of two addresses. Raises RequestError 400 with the wrong field."""
    source, target = ClusterAddress.of(form, "source"), ClusterAddress.of(form, "target")
    if source.alias == target.alias:
        raise RequestError(400, f"Both clusters are named {source.alias}: give them two names.")
    return MigrationDraft(source, target)


def _ticked(draft: MigrationDraft, visit: Visit) -> MigrationDraft:
    """The draft with the boxes that the user ticked."""
    everything = visit.form.get("all") == "yes"
    return replace(
        draft,
        topics=None if everything else visit.ticked("topic"),
        groups=None if everything else visit.ticked("group"),
        keeps_names=visit.form.get("names") == "kept",
        syncs_groups=visit.form.get("groups") == "yes",
        syncs_acls=visit.form.get("acls") == "yes",
    )


def _checked(ticked: MigrationDraft, found: FoundClusters) -> MigrationDraft:
    """The draft to plan: a part of the topics and groups, or None for all of them. Raises RequestError 400."""
    topics, groups = ticked.topics, ticked.groups
    if topics is None or groups is None:
        return ticked
    unknown = set(topics) - {topic.name for topic in found.topics} or set(groups) - set(found.groups)
    if unknown:
        raise RequestError(400, f"{sorted(unknown)[0]!r} is unknown: look at the clusters again.")
    if not topics:
        raise RequestError(400, "Tick a topic, or several.")
    return replace(
        ticked,
        topics=None if len(topics) == len(found.topics) else topics,
        groups=None if len(groups) == len(found.groups) else groups,
        syncs_groups=ticked.syncs_groups and (bool(groups) or not found.groups),
    )


def _choice(one: Migration, draft: MigrationDraft) -> ConsolePage:
    """The form with the topics and groups of the source; the boxes of the draft are ticked."""
    found = one.found
    boxes = len(found.topics) + len(found.groups) <= MOST_BOXES
    topics = None if draft.topics is None else frozenset(draft.topics)
    groups = None if draft.groups is None else frozenset(draft.groups)
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
                "ticked": topics is None or topic.name in topics,
            }
            for topic in (found.topics if boxes else ())
        ],
        "groups": [
            {"group": group, "ticked": groups is None or group in groups} for group in (found.groups if boxes else ())
        ],
        "topic_count": len(found.topics),
        "group_count": len(found.groups),
        "left_out": found.left_out,
        "acls": found.acls,
        "unread": list(found.unread),
        "keeps_names": draft.keeps_names,
        "syncs_groups": draft.syncs_groups,
        "syncs_acls": draft.syncs_acls,
        "mistake": None,
    }
    return ConsolePage("migration/choose.html", "migration", f"Migrate {draft.flow}", data)


def _row(one: Migration) -> dict[str, Any]:
    """A migration of the list, with its state in words, and its possible actions."""
    run = one.run
    runs = run is not None and run.code is None
    if run is not None:
        state = f"process {run.process.pid} runs" if runs else f"process {run.process.pid} ended with code {run.code}"
    elif one.file is not None:
        state = "the file is written"
    else:
        state = "topics are to choose" if one.plan is None else "planned"
    return {
        "id": one.id,
        "flow": one.draft.flow,
        "from": one.draft.source.servers,
        "to": one.draft.target.servers,
        "state": state,
        "runs": runs,
        "ended": run is not None and not runs,
        "planned": one.plan is not None,
        "draft": one.draft.digest,
        "file": None if one.file is None else str(one.file),
    }


def _process(one: Migration) -> dict[str, Any] | None:
    """The process that runs the file; `code` is None while it runs."""
    return None if one.run is None else {"pid": one.run.process.pid, "code": one.run.code}
