"""The forms of a connector: a new connector, and another configuration of an existing connector.

The worker checks the configuration before any change, by the same request as `twinlog connectors create`. A form with a
mistake comes back filled in, with its secrets hidden.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_args

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.config.connector import InitialState
from twinlog.errors import RequestError
from twinlog.ops.connectors.create import Change, WrongKey, changes, shown, wrong_keys
from twinlog.ops.connectors.rest import ConnectRest
from twinlog.ui.audit import audit
from twinlog.ui.pages.connectors.typed_config import TypedConfig, config_text
from twinlog.ui.rendering import ConsolePage, quoted
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import Visit, page_routes

T = TypeVar("T")

STATES: Sequence[str] = get_args(InitialState)
CHECK, CREATE, SAVE = "check", "create", "save"
_CLASS = "connector.class"
_LONGEST_ID = 64
_ABOUT_LOGIN = (401, 403)


@dataclass(frozen=True, slots=True)
class ConnectorForm:
    """The fields of a form. The session keeps the form's secrets by `id`.

    `seen` is the version of the configuration that an edit began with; a new connector has a class, `kind`, and a first
    `state` instead.
    """

    name: str = ""
    kind: str = ""
    state: str = STATES[0]
    text: str = field(default="", repr=False)
    seen: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> ConnectorForm:
        """Read the fields of a form that was sent. Raises RequestError 400 with the wrong field."""
        state, form_id = fields.get("state", STATES[0]), fields.get("id", "")
        if state not in STATES:
            raise RequestError(400, f"The state {state!r} is unknown; the states are {', '.join(STATES)}.")
        if not form_id or len(form_id) > _LONGEST_ID:
            raise RequestError(400, "The form lacks its id.")
        kind = fields.get("kind", "").strip()
        return cls(fields.get("name", ""), kind, state, fields.get("text", ""), fields.get("seen", ""), form_id)

    def fill_in(self, typed: TypedConfig) -> ConnectorForm:
        """The form as it comes back: the name and the state of JSON are in their own fields."""
        return replace(self, name=typed.name or self.name, state=typed.initial_state or self.state, text=typed.text)


class ConnectorFormPages:
    """`/ui/connector/new` and `/ui/connector/edit?name=NAME`; both take the step of a form by POST."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        return [
            *page_routes(self._site, "/connector/new", self.show_new, self.create),
            *page_routes(self._site, "/connector/edit", self.show_edit, self.edit),
        ]

    async def show_new(self, visit: Visit) -> ConsolePage:
        """The empty form of a new connector."""
        rest = self._rest(visit)
        classes = await self._call(lambda: _classes(rest))
        return _page("new", ConnectorForm(), classes=classes)

    async def create(self, visit: Visit) -> ConsolePage | Response:
        """Check a new connector; at the step `create` create it, too, and lead to its page."""
        rest, form, step = self._rest(visit), ConnectorForm.of(visit.form), _step(visit, CREATE)
        classes = await self._call(lambda: _classes(rest))
        typed = self._read(visit, form, {})
        config = {**({_CLASS: form.kind} if form.kind else {}), **typed.config}
        form = form.fill_in(typed)
        wrong = _wrong_of(typed)
        if form.kind and config[_CLASS].strip() != form.kind:
            wrong.append(WrongKey(_CLASS, (f"The form has the class {form.kind}: leave this key out.",)))
        wrong = wrong or await self._check(rest, typed, config)
        if step == CREATE and not wrong:
            body: dict[str, object] = {"name": form.name, "config": config}
            if form.state != STATES[0]:
                # Workers of Kafka before 3.7 refuse the field.
                body["initial_state"] = form.state
            refused = await self._send(
                visit,
                lambda: rest.send_request("POST", "connectors", body=body),
                "create connector",
                connector=form.name,
                state=form.state,
            )
            if refused is None:
                return self._lead_to_connector(visit, form)
            wrong = [_whole(refused, typed)]
        return _page("new", form, classes=classes, wrong=wrong, step=step)

    async def show_edit(self, visit: Visit) -> ConsolePage:
        """The form with the present configuration. Raises RequestError 404 for an unknown connector."""
        rest, name = self._rest(visit), visit.query("name")
        text = config_text(await self._call(lambda: _config(rest, name)))
        return _page("edit", ConnectorForm(name, text=text, seen=_version(text)))

    async def edit(self, visit: Visit) -> ConsolePage | Response:
        """Check a configuration; at the step `save` replace the present configuration, too, and lead to the page of the
        connector.
        """
        rest, form, step = self._rest(visit), ConnectorForm.of(visit.form), _step(visit, SAVE)
        before = await self._call(lambda: _config(rest, form.name))
        typed = self._read(visit, form, before)
        # The worker requires the name of the path, which may end with a blank.
        config = {**typed.config, "name": form.name}
        changed = [] if typed.problems else changes({**before, "name": form.name}, config)
        version = _version(config_text(before))
        wrong = _wrong_of(typed)
        if form.seen != version:
            text = "The configuration has changed since the form was loaded: the changes below undo that."
            wrong.append(WrongKey("", (text,)))
        form = replace(form, text=typed.text, seen=version)
        wrong = wrong or await self._check(rest, typed, config)
        if step == SAVE and changed and not wrong:
            refused = await self._send(
                visit,
                lambda: rest.send_request("PUT", "connectors", form.name, "config", body=config),
                "edit connector",
                connector=form.name,
                keys=",".join(change.key for change in changed),
            )
            if refused is None:
                return self._lead_to_connector(visit, form)
            wrong = [_whole(refused, typed)]
        return _page("edit", form, wrong=wrong, step=step, changed=changed)

    def _rest(self, visit: Visit) -> ConnectRest:
        self._site.require_actions()
        return self._site.require_rest(visit.session.authorization)

    def _read(self, visit: Visit, form: ConnectorForm, before: Mapping[str, str | None]) -> TypedConfig:
        """The configuration of a form; the session keeps the secrets that differ from the configuration `before`."""
        typed = TypedConfig.read(form.text, form.name, {**before, **visit.session.kept_secrets.get(form.id, {})})
        if typed.config:
            visit.session.forget_secrets(form.id)
            if own := {key: value for key, value in typed.secrets.items() if before.get(key) != value}:
                visit.session.keep_secrets(form.id, own)
        return typed

    async def _check(self, rest: ConnectRest, typed: TypedConfig, config: Mapping[str, str]) -> list[WrongKey]:
        """The keys that the worker refuses, in texts that lack secrets."""
        class_name = config.get(_CLASS, "").strip()
        if not class_name:
            return [WrongKey(_CLASS, ("The class is missing: choose it, or write this key.",))]
        try:
            found = await self._call(lambda: wrong_keys(rest, class_name, config))
        except RequestError as error:
            if error.status in _ABOUT_LOGIN:
                raise
            return [_whole(error.message, typed)]
        return [
            WrongKey(
                wrong.key,
                tuple(typed.hide_secrets_in(text) for text in wrong.errors),
                tuple(shown(wrong.key, value) or "" for value in wrong.recommended),
            )
            for wrong in found
        ]

    async def _send(self, visit: Visit, send: Callable[[], object], action: str, **facts: object) -> str | None:
        """Send a change, with a line in the audit; returns the worker's words if the worker refuses the change."""
        try:
            await self._call(send)
        except Exception as error:
            audit(visit.user, visit.address, action, **facts, outcome=type(error).__name__)
            if isinstance(error, RequestError) and error.status not in _ABOUT_LOGIN:
                return error.message
            raise
        audit(visit.user, visit.address, action, **facts, outcome="accepted")
        return None

    def _lead_to_connector(self, visit: Visit, form: ConnectorForm) -> Response:
        visit.session.forget_secrets(form.id)
        return RedirectResponse(f"{self._site.root}/connector?name={quoted(form.name)}", 303)

    async def _call(self, call: Callable[[], T]) -> T:
        return await self._site.threads.connectors.run(call)


def _page(
    mode: str,
    form: ConnectorForm,
    *,
    classes: Sequence[str] = (),
    wrong: Sequence[WrongKey] = (),
    step: str = "",
    changed: Sequence[Change] = (),
) -> ConsolePage:
    """The form; after a step also its result."""
    data: dict[str, Any] = {
        "mode": mode,
        "id": form.id,
        "name": form.name,
        "kind": form.kind,
        "state": form.state,
        "text": form.text,
        "seen": form.seen,
        "classes": list(classes),
        "states": list(STATES),
        "checked": bool(step),
        "errors": sum(len(one.errors) for one in wrong),
        "wrong": [{"key": one.key, "errors": list(one.errors), "recommended": list(one.recommended)} for one in wrong],
        "changes": [str(change) for change in changed],
    }
    title = "Create a connector" if mode == "new" else f"Edit {form.name}"
    return ConsolePage("connectors/form.html", "connectors", title, data, 400 if wrong and step != CHECK else 200)


def _step(visit: Visit, last: str) -> str:
    step = visit.form.get("step", CHECK)
    if step not in (CHECK, last):
        raise RequestError(400, f"The step {step!r} is unknown; the steps are {CHECK} and {last}.")
    return step


def _classes(rest: ConnectRest) -> list[str]:
    """The classes of connectors that the worker has."""
    return sorted(str(plugin["class"]) for plugin in rest.get("connector-plugins"))


def _config(rest: ConnectRest, name: str) -> Mapping[str, str | None]:
    found: Mapping[str, str | None] = rest.get("connectors", name, "config")
    return {key: found[key] for key in sorted(found)}


def _version(text: str) -> str:
    """A version of a configuration, from its text without secrets."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _wrong_of(typed: TypedConfig) -> list[WrongKey]:
    return [
        WrongKey(one.key, (f"line {one.line}: {one.sentence}" if one.line is not None else one.sentence,))
        for one in typed.problems
    ]


def _whole(message: str, typed: TypedConfig) -> WrongKey:
    """The worker's words about a configuration as a whole."""
    return WrongKey("", tuple(typed.hide_secrets_in(message).splitlines()))
