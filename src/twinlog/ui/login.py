"""The login and the logout of a browser, against the users of the REST API."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.connect.rest.users import Credentials
from twinlog.errors import RequestError
from twinlog.ui.audit import audit
from twinlog.ui.guards import port_of
from twinlog.ui.rendering import ConsolePage
from twinlog.ui.sessions import FORM_COOKIE, cookie_of
from twinlog.ui.site import ConsoleSite
from twinlog.ui.visits import (
    TOKEN_FIELD,
    ConsoleEndpoint,
    Visit,
    drop_session,
    render,
    session_name,
    set_session,
)

_LONGEST = 1024


class LoginPages:
    """The form of the login, its check, and the end of a session."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site

    def routes(self) -> list[Route]:
        root = self._site.root
        return [
            Route(f"{root}/login", ConsoleEndpoint(self._site, self.show, self.log_in, open_to_all=True)),
            Route(f"{root}/logout", ConsoleEndpoint(self._site, None, self.log_out)),
        ]

    async def show(self, visit: Visit) -> ConsolePage | Response:
        """The form; a browser with a session is sent on."""
        target = self._target(visit.query("next"))
        if visit.session.user or not self._site.settings.needs_login:
            return RedirectResponse(target, 303)
        return self._form(visit, target, "", 200)

    async def log_in(self, visit: Visit) -> ConsolePage | Response:
        """Begin a session under a new name, whatever name the browser sent."""
        target = self._target(visit.form.get("next", ""))
        user, password = visit.form.get("user", "")[:_LONGEST], visit.form.get("password", "")[:_LONGEST]
        if not self._site.settings.needs_login:
            return RedirectResponse(target, 303)
        known = visit.request.cookies.get(_form_cookie(visit), "")
        if not self._site.sessions.is_token(known, visit.form.get(TOKEN_FIELD, "")):
            return self._form(visit, target, "The form was too old: please log in again.", 403)
        try:
            await self._site.logins.check(Credentials(user, password), visit.address)
        except RequestError as error:
            audit(user, visit.address, "login", outcome="refused", status=error.status)
            return self._form(visit, target, error.message, error.status)
        self._site.sessions.end(session_name(visit.request))
        kept = Credentials(user, password).authorization if self._site.settings.keeps_logins else None
        session = self._site.sessions.begin(user, kept)
        audit(user, visit.address, "login", outcome="done")
        response = RedirectResponse(target, 303)
        set_session(response, session, visit.request)
        response.delete_cookie(_form_cookie(visit), path=f"{self._site.root}/login", httponly=True, samesite="strict")
        return response

    async def log_out(self, visit: Visit) -> Response:
        """End the session."""
        self._site.sessions.end(visit.session.name)
        audit(visit.user, visit.address, "logout", outcome="done")
        response = RedirectResponse(f"{self._site.root}/", 303)
        drop_session(response, visit.request)
        return response

    def _form(self, visit: Visit, target: str, trouble: str, status: int) -> Response:
        """The form with a token for a cookie of its own: a page of another site is unable to log a browser in."""
        name = secrets.token_urlsafe(32)
        values = {"next": target, "trouble": trouble, "form_token": self._site.sessions.token(name)}
        headers = {"Retry-After": "5"} if status == 429 else {}
        response = render(self._site, visit, ConsolePage("login.html", "", "Log in", values, status, headers=headers))
        path = f"{self._site.root}/login"
        cookie = _form_cookie(visit)
        response.set_cookie(cookie, name, path=path, secure=visit.secure, httponly=True, samesite="strict")
        return response

    def _target(self, wanted: str) -> str:
        """The page after the login: always a path of the console."""
        root = f"{self._site.root}/"
        odd = any(character < "!" or character in "\\\x7f" for character in wanted)
        parts = urlsplit(wanted) if wanted.startswith(root) and not odd else None
        if parts is None or parts.scheme or parts.netloc or parts.path.startswith((f"{root}login", f"{root}api/")):
            return root
        return wanted


def _form_cookie(visit: Visit) -> str:
    """The name of the cookie of the form of the login."""
    return cookie_of(FORM_COOKIE, port_of(visit.request))
