"""The login to the console at an issuer of OpenID Connect: its way, its checks, and its end. The issuer is real."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from harness.certificates import authority
from harness.web.open_id import SUBJECT, OpenIdIssuer, SigningKey
from tests.unit.ui.browser import SESSION_COOKIE, Answer, Browser
from tests.unit.ui.fakes import FakeSources, fake_worker
from tests.unit.ui.login.test_security import log_in
from tests.unit.ui.test_mounted import MovableClock
from tests.unit.ui.test_routes import STACK
from twinlog.connect.rest.users import Users
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.tls import TlsSettings
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.login.open_id.code_flow import LOGIN_S, MOST_OF_BROWSER, MOST_TARGET_BYTES
from twinlog.ui.login.open_id.issuer import FAILED_S, KEPT_S, KEYS_EVERY_S
from twinlog.ui.login.sessions import ISSUER_COOKIE, SECURE_ISSUER_COOKIE
from twinlog.ui.site import ConsoleSettings

COOKIE = f"{ISSUER_COOKIE}-8081"
WAY_OUT = "Log in at http://127.0.0.1:"
STRANGERS = 100
TRIES = 5
LARGEST_COOKIE = 4000
"""Browsers refuse cookies of more than 4096 bytes with their attributes."""

FIRST, SECOND = SigningKey.of_rsa("k1"), SigningKey.of_ec("k2")


@pytest.fixture
def issuer() -> Iterator[OpenIdIssuer]:
    with OpenIdIssuer(key=FIRST) as found:
        yield found


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


def settings_of(issuer: OpenIdIssuer, **more: Any) -> OpenIdSettings:
    found = OpenIdSettings(issuer.url, issuer.client_id, issuer.client_secret, issuer.redirect_uri, subjects=("*",))
    return replace(found, **more)


Made = Callable[..., ConsoleApp]


@pytest.fixture
def make(issuer: OpenIdIssuer, sources: FakeSources, clock: MovableClock) -> Iterator[Made]:
    """Makes a console with the issuer and changed settings, and users if they are given."""
    made: list[ConsoleApp] = []

    def make_console(users: Users | None = None, **more: Any) -> ConsoleApp:
        made.append(console_app(sources, ConsoleSettings(users, open_id=settings_of(issuer, **more)), clock))
        return made[-1]

    yield make_console
    for one in made:
        one.close()


def begin(browser: Browser, target: str = "/ui/") -> str:
    """The address of the issuer to which the console leads a browser."""
    answer = browser.get(f"/ui/login/oauth?next={target}")
    assert answer.status == 303, answer.text
    return answer.headers["location"]


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


def walk(browser: Browser, issuer: OpenIdIssuer, target: str = "/ui/") -> Answer:
    """The answer to the request by which the issuer sends the browser back."""
    return browser.get(path_of(issuer.visit(begin(browser, target))))


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "twinlog.audit"]


def require_refusal(browser: Browser, answer: Answer, status: int, text: str) -> None:
    """The page has the reason and the way out, and there is no session."""
    assert answer.status == status, answer.text
    assert text in answer.text.replace("&#39;", "'"), answer.text
    assert WAY_OUT in answer.text
    assert not STACK.search(answer.text)
    assert SESSION_COOKIE not in browser.cookies
    assert browser.get("/ui/").status == 303


def test_a_user_logs_in_at_the_issuer_and_out_of_the_console(
    make: Made, issuer: OpenIdIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    issuer.claims["preferred_username"] = "ann"
    browser = Browser(make(user_claim="preferred_username"), client="10.0.0.7")
    asked = browser.get("/ui/topics?search=x")
    assert (asked.status, asked.headers["location"]) == (303, "/ui/login?next=/ui/topics%3Fsearch%3Dx")
    page = browser.get(asked.headers["location"]).text
    assert "Password" not in page
    link = re.search(r'href="(/ui/login/oauth\?next=[^"]+)"', page)
    assert link is not None
    location = browser.get(link[1]).headers["location"]
    answer = browser.get(path_of(issuer.visit(location)))
    assert answer.status == 200
    # A redirect would lack the cookie of the session: the browser came from another site.
    assert '<meta http-equiv="refresh" content="0;url=/ui/topics?search=x">' in answer.text
    assert "You are logged in as ann." in answer.text
    assert COOKIE not in browser.cookies
    page = browser.get("/ui/topics?search=x").text
    assert "Log out ann" in page
    token = browser.get("/ui/").token
    kept = dict(browser.cookies)
    assert browser.post("/ui/logout", {"token": token}).status == 303
    assert SESSION_COOKIE not in browser.cookies
    assert Browser(browser.app, cookies=kept).get("/ui/").status == 303
    lines = audit_lines(caplog)
    assert lines == [
        f'console: user="ann" address="10.0.0.7" action="login" outcome="done" issuer="{issuer.url}" subject="u-1"',
        'console: user="ann" address="10.0.0.7" action="logout" outcome="done"',
    ]


def test_the_request_to_the_issuer_has_pkce_state_and_nonce_of_its_own(make: Made, issuer: OpenIdIssuer) -> None:
    app = make(scope="openid groups")
    first, second = (parse_qs(urlsplit(begin(Browser(app))).query) for _ in range(2))
    assert first["response_type"] == ["code"]
    assert first["client_id"] == ["console"]
    assert first["redirect_uri"] == [issuer.redirect_uri]
    assert first["scope"] == ["openid groups"]
    assert first["code_challenge_method"] == ["S256"]
    for name in ("state", "nonce", "code_challenge"):
        assert len(first[name][0]) >= 43
        assert first[name] != second[name]
    assert walk(Browser(app), issuer).status == 200
    form = next(form for path, form in issuer.asked if path == "/token")
    assert form["grant_type"] == "authorization_code"
    assert 43 <= len(form["code_verifier"]) <= 128
    assert "client_secret" not in form


def test_an_address_of_the_issuer_may_have_a_query(make: Made, issuer: OpenIdIssuer) -> None:
    issuer.metadata["authorization_endpoint"] = f"{issuer.url}/authorize?tenant=ops"
    browser = Browser(make())
    assert "/authorize?tenant=ops&response_type=code&" in begin(browser)
    assert walk(browser, issuer).status == 200


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("an audience of another client", {"aud": "other"}, "Audience doesn't match"),
    ("several audiences without a party", {"aud": ["console", "other"]}, "for another client (azp)"),
    ("a party that is another client", {"aud": ["console", "other"], "azp": "other"}, "for another client (azp)"),
    ("no audience", {"aud": None}, "aud"),
    ("a nonce of another login", {"nonce": "n" * 43}, "its nonce is of another login"),
    ("no nonce", {"nonce": None}, "its nonce is of another login"),
    ("a nonce that is a number", {"nonce": 7}, "its nonce is of another login"),
    ("an end in the past", {"exp": 1_700_000_000}, "expired"),
    ("no end", {"exp": None}, "exp"),
    ("an end that is a list", {"exp": []}, "refuses the ID token"),
    ("a begin in the future", {"iat": 99_999_999_999}, "not yet valid"),
    ("another issuer", {"iss": "http://127.0.0.1:9"}, "issuer"),
    ("no subject", {"sub": None}, "sub"),
    ("a subject that is a number", {"sub": 7}, "ubject"),
)


@pytest.mark.parametrize(("claims", "text"), [pytest.param(*more, id=name) for name, *more in WRONG])
def test_a_wrong_claim_is_refused(
    make: Made, issuer: OpenIdIssuer, claims: dict[str, Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    browser = Browser(make())
    issuer.claims.update(claims)
    require_refusal(browser, walk(browser, issuer), 401, text)
    (line,) = audit_lines(caplog)
    assert 'user="-"' in line
    assert 'outcome="refused" status="401"' in line
    issuer.claims.clear()
    assert walk(browser, issuer).status == 200


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        ("none", "signed by 'none'"),
        ("None", "signed by 'None'"),
        ("HS256", "signed by 'HS256'"),
        ("RS512", "by none of the keys of the issuer"),
    ],
)
def test_a_token_needs_a_signature_that_only_the_issuer_can_make(
    make: Made, issuer: OpenIdIssuer, algorithm: str, text: str
) -> None:
    browser = Browser(make())
    issuer.algorithm = algorithm
    require_refusal(browser, walk(browser, issuer), 401, text)


def test_a_key_of_somebody_else_with_a_known_id_is_refused(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make())
    issuer.key = SigningKey("k1", SigningKey.of_rsa("k1").private)
    require_refusal(browser, walk(browser, issuer), 401, "by none of the keys of the issuer")


def test_the_issuer_may_change_its_keys(make: Made, issuer: OpenIdIssuer, clock: MovableClock) -> None:
    app = make()
    assert walk(Browser(app), issuer).status == 200
    issuer.rotate(SECOND)
    clock.ahead_s += KEYS_EVERY_S
    assert walk(Browser(app), issuer).status == 200
    # The first key is withdrawn.
    issuer.key = FIRST
    clock.ahead_s += KEYS_EVERY_S
    browser = Browser(app)
    require_refusal(browser, walk(browser, issuer), 401, "by none of the keys of the issuer")
    asked = [path for path, _ in issuer.asked]
    assert asked.count("/keys") == 3
    assert asked.count("/.well-known/openid-configuration") == 1


def test_keys_and_metadata_are_kept_for_an_hour(make: Made, issuer: OpenIdIssuer, clock: MovableClock) -> None:
    app = make()
    for _ in range(3):
        assert walk(Browser(app), issuer).status == 200
    issuer.keys = [SECOND]
    assert walk(Browser(app), issuer).status == 200
    clock.ahead_s += KEPT_S
    browser = Browser(app)
    require_refusal(browser, walk(browser, issuer), 401, "by none of the keys of the issuer")
    assert [path for path, _ in issuer.asked].count("/.well-known/openid-configuration") == 2


def test_keys_of_other_kinds_are_passed_over(make: Made, issuer: OpenIdIssuer) -> None:
    class Odd(SigningKey):
        def jwk(self) -> dict[str, str]:
            return {"kid": "k1", "kty": "oct", "k": "eA"}

    class Malformed(SigningKey):
        def jwk(self) -> dict[str, str]:
            return {"kid": "k1", "kty": "RSA", "n": "!", "e": ""}

    issuer.keys = [Odd("k1", FIRST.private), Malformed("k1", FIRST.private), FIRST]
    assert walk(Browser(make()), issuer).status == 200


def test_a_login_ends_once(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make())
    back = path_of(issuer.visit(begin(browser)))
    thief = Browser(browser.app, cookies=dict(browser.cookies))
    assert browser.get(back).status == 200
    # The address alone, and the address with the cookie of the login.
    require_refusal(Browser(browser.app), Browser(browser.app).get(back), 403, "began in another browser, or has ended")
    require_refusal(thief, thief.get(back), 403, "began in another browser, or has ended")
    assert browser.get("/ui/").status == 200


def test_a_code_of_another_login_is_refused(make: Made, issuer: OpenIdIssuer) -> None:
    """An attacker has the code of a user, and a login of his own that began."""
    app = make()
    user, attacker = Browser(app), Browser(app)
    stolen = parse_qs(urlsplit(issuer.visit(begin(user))).query)
    own = parse_qs(urlsplit(begin(attacker)).query)
    answer = attacker.get(f"/ui/login/callback?code={stolen['code'][0]}&state={stolen['state'][0]}")
    require_refusal(attacker, answer, 403, "began in another browser")
    # The issuer knows the code by the challenge of the user.
    answer = attacker.get(f"/ui/login/callback?code={stolen['code'][0]}&state={own['state'][0]}")
    require_refusal(attacker, answer, 401, "too old, or was used before")


def test_a_code_that_was_used_before_is_refused(make: Made, issuer: OpenIdIssuer) -> None:
    app = make()
    first = Browser(app)
    back = issuer.visit(begin(first))
    assert first.get(path_of(back)).status == 200
    code = parse_qs(urlsplit(back).query)["code"][0]
    second = Browser(app)
    state = parse_qs(urlsplit(begin(second)).query)["state"][0]
    answer = second.get(f"/ui/login/callback?code={code}&state={state}")
    require_refusal(second, answer, 401, "too old, or was used before")


def test_a_login_that_takes_too_long_has_ended(make: Made, issuer: OpenIdIssuer, clock: MovableClock) -> None:
    browser = Browser(make())
    back = path_of(issuer.visit(begin(browser)))
    clock.ahead_s += LOGIN_S + 1
    require_refusal(browser, browser.get(back), 403, "has ended")


def test_strangers_behind_the_same_proxy_lock_no_user_out(make: Made, issuer: OpenIdIssuer) -> None:
    """Strangers begin logins and guess codes; users behind a proxy have the address of the strangers."""
    app = make()
    user = Browser(app)
    back = path_of(issuer.visit(begin(user)))
    for number in range(STRANGERS):
        stranger = Browser(app)
        state = parse_qs(urlsplit(begin(stranger)).query)["state"][0]
        answer = stranger.get(f"/ui/login/callback?code=guess-{number}&state={state}")
        assert (answer.status, "too old, or was used before" in answer.text) == (401, True)
    assert user.get(back).status == 200
    assert walk(Browser(app), issuer).status == 200


def test_the_logins_of_several_tabs_all_end(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make())
    targets = [f"/ui/topics?search={number}" for number in range(MOST_OF_BROWSER + 1)]
    backs = [path_of(issuer.visit(begin(browser, target))) for target in targets]
    require_refusal(browser, browser.get(backs[0]), 403, "began in another browser, or has ended")
    for target, back in list(zip(targets, backs, strict=True))[:0:-1]:
        answer = browser.get(back)
        assert answer.status == 200
        assert f"0;url={target}" in answer.text
    assert COOKIE not in browser.cookies
    # A browser that sends its session, too, is sent on by the address of a login that has ended.
    again = browser.get(backs[1])
    assert (again.status, again.headers["location"]) == (303, "/ui/")
    assert browser.get("/ui/").status == 200


def test_a_long_target_fits_into_no_cookie(make: Made, issuer: OpenIdIssuer) -> None:
    for count, found in ((MOST_TARGET_BYTES, True), (MOST_TARGET_BYTES + 1, False)):
        browser = Browser(make())
        target = "/ui/topics?search=".ljust(count, "x")
        for _ in range(MOST_OF_BROWSER):
            back = path_of(issuer.visit(begin(browser, target)))
        assert len(browser.cookies[COOKIE]) < LARGEST_COOKIE
        assert (f"0;url={target}" in browser.get(back).text) == found


@pytest.mark.parametrize("query", ["", "?state=x", "?code=x", "?error=access_denied", "?state=%00&code=%ff"])
def test_a_callback_out_of_nowhere_is_refused(make: Made, issuer: OpenIdIssuer, query: str) -> None:
    browser = Browser(make())
    begin(browser)
    require_refusal(browser, browser.get(f"/ui/login/callback{query}"), 403, "began in another browser")
    assert "/token" not in [path for path, _ in issuer.asked]


def test_the_login_ends_the_session_that_the_browser_brought(make: Made, issuer: OpenIdIssuer) -> None:
    app = make()
    attacker, victim = Browser(app), Browser(app)
    assert walk(attacker, issuer).status == 200
    planted = attacker.cookies[SESSION_COOKIE]
    back = path_of(issuer.visit(begin(victim)))
    victim.cookies[SESSION_COOKIE] = planted
    assert victim.get(back).status == 200
    assert victim.cookies[SESSION_COOKIE] != planted
    assert victim.get("/ui/").status == 200
    assert attacker.get("/ui/").status == 303


def test_a_refusal_of_the_issuer_is_told(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make())
    issuer.error = "access_denied"
    require_refusal(browser, walk(browser, issuer), 401, "The issuer refused the login (access_denied).")
    issuer.error = "<script>x</script>"
    require_refusal(browser, walk(browser, issuer), 401, "The issuer refused the login (the reason is missing).")


def test_an_answer_of_another_issuer_is_refused(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make())
    back = path_of(issuer.visit(begin(browser))).replace("iss=http", "iss=https")
    require_refusal(browser, browser.get(back), 401, "The answer is of another issuer.")


@pytest.mark.parametrize(
    ("settings", "claims", "admitted"),
    [
        ({"subjects": (SUBJECT,)}, {}, True),
        ({"subjects": ("u-2",)}, {}, False),
        ({"subjects": (), "groups": ("ops",)}, {"groups": ["dev", "ops"]}, True),
        ({"subjects": (), "groups": ("ops",)}, {"groups": "ops"}, True),
        ({"subjects": (), "groups": ("ops",)}, {"groups": ["dev"]}, False),
        ({"subjects": (), "groups": ("ops",)}, {}, False),
        ({"subjects": (), "groups": ("ops",)}, {"groups": 7}, False),
        ({"subjects": (), "groups": ("ops",), "groups_claim": "roles"}, {"groups": ["ops"]}, False),
        ({"subjects": (), "groups": ("ops",), "groups_claim": "roles"}, {"roles": ["ops"]}, True),
        ({"subjects": ()}, {"groups": ["*"]}, False),
    ],
)
def test_subjects_and_groups_decide_who_is_admitted(
    make: Made,
    issuer: OpenIdIssuer,
    settings: dict[str, Any],
    claims: dict[str, Any],
    admitted: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    issuer.claims.update(claims)
    browser = Browser(make(**settings))
    answer = walk(browser, issuer)
    if admitted:
        assert answer.status == 200
        assert browser.get("/ui/").status == 200
        return
    require_refusal(browser, answer, 403, "The issuer knows you as u-1, whom this console does not admit")
    (line,) = audit_lines(caplog)
    assert 'user="u-1"' in line
    assert f'outcome="refused" status="403" issuer="{issuer.url}" subject="u-1"' in line


def test_the_claim_of_the_name_is_required_and_an_address_is_verified(make: Made, issuer: OpenIdIssuer) -> None:
    browser = Browser(make(user_claim="email"))
    require_refusal(browser, walk(browser, issuer), 401, "it lacks the claim email, which names the user")
    for unverified in (False, "false"):
        issuer.claims |= {"email": "ann@id.example", "email_verified": unverified}
        require_refusal(browser, walk(browser, issuer), 401, "has not verified the address")
    issuer.claims["email_verified"] = True
    assert "logged in as ann@id.example" in walk(browser, issuer).text


def test_the_name_of_a_user_is_text(make: Made, issuer: OpenIdIssuer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    issuer.claims["sub"] = '<script>x</script>"\r\nconsole: user="root"'
    browser = Browser(make())
    answer = walk(browser, issuer)
    assert answer.status == 200
    for page in (answer.text, browser.get("/ui/").text):
        assert "<script>x" not in page
        assert "&lt;script&gt;x" in page
    (line,) = audit_lines(caplog)
    assert "\n" not in line


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", "/x"])
def test_the_login_leads_to_no_other_site(make: Made, issuer: OpenIdIssuer, target: str) -> None:
    browser = Browser(make())
    answer = walk(browser, issuer, target.replace("\\", "%5C"))
    assert 'content="0;url=/ui/"' in answer.text
    assert "evil.example" not in answer.text
    # A browser with a session is sent on at once.
    again = browser.get("/ui/login/oauth?next=" + target.replace("\\", "%5C"))
    assert (again.status, again.headers["location"]) == (303, "/ui/")


def test_cookies_are_kept_from_scripts_and_under_tls_from_neighbours(make: Made, issuer: OpenIdIssuer) -> None:
    app = make()
    for scheme, name, path in (("http", COOKIE, "/ui"), ("https", f"{SECURE_ISSUER_COOKIE}-8081", "/")):
        answer = Browser(app, scheme=scheme).get("/ui/login/oauth")
        (cookie,) = answer.cookies
        parts = [part.strip().lower() for part in cookie.split(";")]
        assert cookie.startswith(f"{name}=")
        # With `strict` the browser would leave it out when the issuer sends it back.
        assert {"httponly", "samesite=lax", f"path={path}"} <= set(parts), cookie
        assert ("secure" in parts) == (scheme == "https")
        assert not any(part.startswith(("max-age", "expires", "domain")) for part in parts), cookie


def test_behind_a_proxy_with_tls_no_cookie_crosses_the_network_in_the_clear(
    sources: FakeSources, clock: MovableClock
) -> None:
    with OpenIdIssuer(key=FIRST, redirect_uri="https://mirror.example/ui/login/callback") as issuer:
        app = console_app(sources, ConsoleSettings(open_id=settings_of(issuer)), clock)
        browser = Browser(app, host="mirror.example")
        begun = browser.get("/ui/login/oauth")
        ended = browser.get(path_of(issuer.visit(begun.headers["location"])))
        app.close()
    assert ended.status == 200
    assert len(begun.cookies) == 1
    assert len(ended.cookies) == 2
    for cookie in (*begun.cookies, *ended.cookies):
        assert "secure" in [part.strip().lower() for part in cookie.split(";")], cookie


def test_a_login_begins_under_the_name_to_which_the_issuer_sends_back(make: Made, issuer: OpenIdIssuer) -> None:
    """The cookie of 127.0.0.1 would be missing at localhost."""
    app = make()
    answer = Browser(app, host="127.0.0.1:8081").get("/ui/login/oauth?next=/ui/topics?search=x")
    assert answer.status == 303
    assert answer.headers["location"] == "http://localhost:8081/ui/login/oauth?led=1&next=%2Fui%2Ftopics%3Fsearch%3Dx"
    assert answer.cookies == ()
    browser = Browser(app)
    led = browser.get(path_of(answer.headers["location"])).headers["location"]
    assert "0;url=/ui/topics?search=x" in browser.get(path_of(issuer.visit(led))).text
    # A proxy that hides the name leads a browser into no circle.
    hidden = Browser(app, host="console:8081").get(path_of(answer.headers["location"]))
    assert hidden.headers["location"].startswith(f"{issuer.url}/authorize?")


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token"])
def test_an_issuer_in_trouble_gets_a_page_with_the_way_out(
    make: Made, issuer: OpenIdIssuer, clock: MovableClock, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.fails[path] = 503
    browser = Browser(make())
    for _ in range(TRIES):
        answer = browser.get("/ui/login/oauth")
        if answer.status == 303:
            answer = browser.get(path_of(issuer.visit(answer.headers["location"])))
        require_refusal(browser, answer, 502, "gave a wrong answer, or was silent. Try again")
    # The log has the reason once, and the trouble of the issuer slows down no user.
    (line,) = [one.getMessage() for one in caplog.records if "TW-REST-10" in one.getMessage()]
    assert f"a login at the issuer {issuer.url} failed: {issuer.url}{path} answers 503" in line
    issuer.fails.clear()
    clock.ahead_s += FAILED_S
    assert walk(browser, issuer).status == 200


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys"])
def test_logins_that_wait_for_an_issuer_in_trouble_fail_together(
    make: Made, issuer: OpenIdIssuer, clock: MovableClock, path: str
) -> None:
    issuer.fails[path] = 503
    app = make()

    def log_in_once() -> int:
        browser = Browser(app)
        answer = browser.get("/ui/login/oauth")
        back = answer if answer.status != 303 else browser.get(path_of(issuer.visit(answer.headers["location"])))
        require_refusal(browser, back, 502, "was silent")
        return [asked for asked, _ in issuer.asked].count(path)

    assert [log_in_once() for _ in range(TRIES)] == [1] * TRIES
    clock.ahead_s += FAILED_S
    assert log_in_once() == 2


def test_a_console_that_the_issuer_does_not_know_says_so_in_its_log(
    make: Made, issuer: OpenIdIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(make(client_secret="wrong"))
    require_refusal(browser, walk(browser, issuer), 502, "the log of the console has the reason")
    assert "invalid_client without an ID token: check twinlog.console.oauth.client.id, .client.secret" in caplog.text
    assert "wrong" not in caplog.text


def test_a_silent_issuer_leaves_all_other_pages_alone(sources: FakeSources, clock: MovableClock) -> None:
    with OpenIdIssuer(key=FIRST) as issuer:
        app = console_app(sources, ConsoleSettings(Users({"alice": "wonder"}), open_id=settings_of(issuer)), clock)
        browser = Browser(app)
        assert walk(browser, issuer).status == 200
    try:
        assert browser.get("/ui/").status == 200
        lost = Browser(app)
        clock.ahead_s += KEPT_S
        require_refusal(lost, lost.get("/ui/login/oauth"), 502, "was silent")
        assert log_in(Browser(app)) == 303
    finally:
        app.close()


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "http://127.0.0.1:9"},
        {"issuer": None},
        {"token_endpoint": "http://id.example/token"},
        {"token_endpoint": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "https://["},
        {"authorization_endpoint": "javascript:x"},
        {"authorization_endpoint": "https://id.example/\r\nset-cookie: a=b"},
    ],
)
def test_metadata_of_another_issuer_or_in_the_clear_is_refused(
    make: Made, issuer: OpenIdIssuer, metadata: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    issuer.metadata.update(metadata)
    browser = Browser(make())
    require_refusal(browser, browser.get("/ui/login/oauth"), 502, "gave a wrong answer")
    assert "TW-REST-10" in caplog.text
    assert "\nset-cookie" not in caplog.text
    if "issuer" in metadata:
        assert "twinlog.console.oauth.issuer has to equal this text" in caplog.text


def test_a_client_may_be_public_or_post_its_secret(sources: FakeSources, clock: MovableClock) -> None:
    for more in ({"client_secret": None}, {"posts_secret": True}, {"client_secret": "h&=:ü %"}):
        with OpenIdIssuer(key=FIRST, **more) as issuer:
            app = console_app(sources, ConsoleSettings(open_id=settings_of(issuer)), clock)
            assert walk(Browser(app), issuer).status == 200, more
            app.close()


def test_the_issuer_shows_a_certificate_that_is_trusted(
    sources: FakeSources, clock: MovableClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours = authority("ours")
    shown = ours.issue("issuer", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.write_pem(tmp_path / "issuer.pem"))
    with OpenIdIssuer(key=FIRST, context=context) as issuer:
        trusting = settings_of(issuer, tls=TlsSettings(authorities=ours.pem))
        for settings, status in ((trusting, 303), (settings_of(issuer), 502)):
            app = console_app(sources, ConsoleSettings(open_id=settings), clock)
            assert Browser(app).get("/ui/login/oauth").status == status
            app.close()
        issuer.metadata["jwks_uri"] = "http://127.0.0.1:9/keys"
        app = console_app(sources, ConsoleSettings(open_id=trusting), clock)
        assert Browser(app).get("/ui/login/oauth").status == 502
        app.close()
    assert "its metadata lacks an https address as jwks_uri" in caplog.text
    assert "is untrusted: " in caplog.text
    assert "twinlog.console.oauth.https.ssl.truststore.location names an authority" in caplog.text


def test_passwords_stay_beside_the_issuer(make: Made, issuer: OpenIdIssuer) -> None:
    app = make(Users({"alice": "wonder"}))
    page = Browser(app).get("/ui/login").text
    assert WAY_OUT in page
    assert "Password" in page
    assert log_in(Browser(app)) == 303
    assert walk(Browser(app), issuer).status == 200


def test_without_users_passwords_are_useless(make: Made, issuer: OpenIdIssuer) -> None:
    for users in (None, Users({})):
        browser = Browser(make(users))
        assert browser.post("/ui/login", {"user": "alice", "password": "wonder"}).status == 303
        assert SESSION_COOKIE not in browser.cookies
        assert browser.get("/ui/").status == 303
        assert browser.get("/ui/api/overview", authorization="Basic YWxpY2U6d29uZGVy").status == 401
        assert browser.get("/ui/api/overview", authorization="Bearer x").status == 401


def test_the_rest_api_of_a_worker_with_users_wants_their_login(
    issuer: OpenIdIssuer, sources: FakeSources, clock: MovableClock
) -> None:
    sources.rest = fake_worker()
    users = Users({"alice": "wonder"})
    app = console_app(sources, ConsoleSettings(users, keeps_logins=True, open_id=settings_of(issuer)), clock)
    browser = Browser(app)
    assert walk(browser, issuer).status == 200
    for page in ("/ui/connectors", "/ui/connector?name=copy"):
        answer = browser.get(page)
        assert answer.status == 403
        assert "has users of its own: log out" in answer.text
    known = Browser(app)
    assert log_in(known) == 303
    assert known.get("/ui/connectors").status == 200
    app.close()


def test_secrets_of_the_login_are_in_no_text(issuer: OpenIdIssuer) -> None:
    assert "hush" not in repr(settings_of(issuer))
