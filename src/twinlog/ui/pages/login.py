"""The login and the logout of a browser: by a password of the users of the REST API, or at an issuer of OpenID Connect.

The issuer sends the browser back by a request that began at another site, so a browser leaves out the cookie of its
session (`SameSite=Strict`) until a page of the console leads it on.
"""

from __future__ import annotations

import secrets
from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from twinlog.connect.rest.users import Credentials
from twinlog.errors import RequestError
from twinlog.settings.open_id import CALLBACK
from twinlog.ui.audit import audit
from twinlog.ui.guards import port_of
from twinlog.ui.login.open_id.code_flow import MOST_TARGET_BYTES, CodeFlow, IssuerAnswer
from twinlog.ui.login.sessions import FORM_COOKIE, ISSUER_COOKIE, SECURE_ISSUER_COOKIE, cookie_of
from twinlog.ui.rendering import ConsolePage
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
        root, site = self._site.root, self._site
        routes = [
            Route(f"{root}/login", ConsoleEndpoint(site, self.show, self.log_in, open_to_all=True)),
            Route(f"{root}/logout", ConsoleEndpoint(site, None, self.log_out)),
        ]
        if site.open_id is not None:
            routes += [
                Route(f"{root}/login/oauth", ConsoleEndpoint(site, self.go_to_issuer, None, open_to_all=True)),
                Route(CALLBACK, ConsoleEndpoint(site, self.come_back, None, open_to_all=True)),
            ]
        return routes

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
        if not self._site.settings.has_passwords:
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

    async def go_to_issuer(self, visit: Visit) -> ConsolePage | Response:
        """Lead a browser to the issuer; a browser with a session is sent on.

        The login begins at the address to which the issuer sends the browser back: under a different name of this host,
        for example 127.0.0.1 for localhost, the browser would keep the cookie of the login for that name.
        """
        flow, target = self._flow(), self._target(visit.query("next"))
        if visit.session.user:
            return RedirectResponse(target, 303)
        if len(target.encode()) > MOST_TARGET_BYTES:
            target = f"{self._site.root}/"
        own = flow.settings.redirect_uri.removesuffix(CALLBACK)
        # A proxy may hide the address by which the browser calls the console: the browser is led on once.
        if not visit.query("led") and urlsplit(own).netloc.lower() != visit.request.headers.get("host", "").lower():
            return RedirectResponse(f"{own}{self._site.root}/login/oauth?led=1&next={quote(target, safe='')}", 303)
        cookie = visit.request.cookies.get(_issuer_cookie(visit), "")
        try:
            begun = await self._site.threads.issuer.run(lambda: flow.begin_login(cookie, target))
        except RequestError as error:
            return self._form(visit, target, error.message, error.status)
        response = RedirectResponse(begun.url, 303)
        self._set_logins(response, visit, begun.cookie)
        return response

    async def come_back(self, visit: Visit) -> ConsolePage | Response:
        """Begin a session under a new name for a user whom the issuer knows and the settings admit."""
        flow = self._flow()
        cookie = visit.request.cookies.get(_issuer_cookie(visit), "")
        answer = IssuerAnswer(visit.query("state"), visit.query("code"), visit.query("error"), visit.query("iss"))
        root = f"{self._site.root}/"
        issuer = flow.settings.issuer
        try:
            found = await self._site.threads.issuer.run(lambda: flow.finish_login(cookie, answer))
        except RequestError as error:
            if error.status == 403 and visit.session.user:
                # The user is logged in, and loads the address of an earlier login again.
                return RedirectResponse(root, 303)
            audit("", visit.address, "login", outcome="refused", status=error.status, issuer=issuer)
            return self._form(visit, root, error.message, error.status)
        who, facts = found.user, {"issuer": issuer, "subject": found.user.subject}
        if not who.admitted:
            audit(who.name, visit.address, "login", outcome="refused", status=403, **facts)
            text = (
                f"The issuer knows you as {who.name}, whom this console does not admit: ask its operator for access, "
                "or log out at the issuer and log in as another user."
            )
            return self._form(visit, root, text, 403)
        self._site.sessions.end(session_name(visit.request))
        session = self._site.sessions.begin(who.name)
        audit(who.name, visit.address, "login", outcome="done", **facts)
        page = ConsolePage("login/logged_in.html", "", "Logged in", {"target": found.target, "user": who.name})
        response = render(self._site, visit, page)
        set_session(response, session, visit.request, behind_tls=flow.settings.behind_tls)
        self._set_logins(response, visit, found.cookie)
        return response

    def _set_logins(self, response: Response, visit: Visit, cookie: str) -> None:
        """Bring the browser the cookie with the logins that continue at the issuer; it drops an empty cookie."""
        name, path = _issuer_cookie(visit), "/" if visit.secure else "/ui"
        secure = visit.secure or self._flow().settings.behind_tls
        # The browser sends a lax cookie with the request by which the issuer sends the browser back.
        if cookie:
            response.set_cookie(name, cookie, path=path, secure=secure, httponly=True, samesite="lax")
        else:
            response.delete_cookie(name, path=path, secure=secure, httponly=True, samesite="lax")

    def _flow(self) -> CodeFlow:
        flow = self._site.open_id
        assert flow is not None
        return flow

    async def log_out(self, visit: Visit) -> Response:
        """End the session. The session of the user at the issuer stays."""
        self._site.sessions.end(visit.session.name)
        audit(visit.user, visit.address, "logout", outcome="done")
        response = RedirectResponse(f"{self._site.root}/", 303)
        drop_session(response, visit.request)
        return response

    def _form(self, visit: Visit, target: str, trouble: str, status: int) -> Response:
        """The form with a token for a cookie of its own: a page of another site is unable to log a browser in."""
        name = secrets.token_urlsafe(32)
        flow = self._site.open_id
        values = {
            "next": target,
            "trouble": trouble,
            "form_token": self._site.sessions.token(name),
            "passwords": self._site.settings.has_passwords,
            "issuer": None if flow is None else flow.settings.issuer,
        }
        headers = {"Retry-After": "5"} if status == 429 else {}
        response = render(
            self._site, visit, ConsolePage("login/login.html", "", "Log in", values, status, headers=headers)
        )
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


def _issuer_cookie(visit: Visit) -> str:
    """The name of the cookie of a login that continues at the issuer."""
    return cookie_of(SECURE_ISSUER_COOKIE if visit.secure else ISSUER_COOKIE, port_of(visit.request))
