"""The console of a process: its flows of now, at the listeners of the process, with the logins of the process."""

from __future__ import annotations

import base64
import json
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.cookiejar import CookieJar
from typing import Any

import pytest

from tests.unit.connect.fake_herder import SOURCE, FakeHerder
from tests.unit.connect.serving import LOOPBACK
from tests.unit.ui.browser import Browser
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.clock import SYSTEM, SystemClock
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.metrics import MetricsServer
from twinlog.connect.rest.server import RestServer
from twinlog.connect.rest.users import Users
from twinlog.console.flow_files import FlowsOfFile
from twinlog.ops.connectors.rest import Access
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import RestSettings, ServedConsole
from twinlog.ui.mounted import MountedConsole
from twinlog.ui.sources import ProcessSources
from twinlog.worker.connectors.model import ConnectorName
from twinlog.worker.metrics.exposition import Measurements, Pages

DEADLINE_S = 60.0
AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


class Flows:
    def __init__(self, *flows: FlowSettings) -> None:
        self.now = list(flows)
        self.reads = 0

    def read(self) -> FlowsOfFile:
        self.reads += 1
        return FlowsOfFile(list(self.now))


class MovableClock(SystemClock):
    """The system's clock, which a test moves ahead."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class Served:
    """A worker's REST API with the console, for users or for this machine."""

    def __init__(self, users: Users | None = None, settings: ServedConsole | None = None) -> None:
        self.herder = FakeHerder()
        self.herder.put(ConnectorName("c"), {"name": "c", "connector.class": SOURCE})
        extensions = (AUTH,) if users is not None else ()
        self.api = RestApi(self.herder, RestSettings(listeners=LOOPBACK, extension_classes=extensions), SYSTEM, users)
        self.server = RestServer(self.api)
        self.console = MountedConsole(settings or ServedConsole(), users, Flows(SETTINGS).read, self.own_api)
        self.server.mount_console(self.console)
        self.server.start()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def own_api(self) -> Access:
        known = self.server.advertised
        return Access(known.host, known.port)

    def close(self) -> None:
        self.console.close()
        self.server.stop()

    def open(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        body = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(f"{self.server.urls[0]}{path}", body, headers)
        try:
            with self.opener.open(request, timeout=DEADLINE_S) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    found = Served(getattr(request, "param", None))
    yield found
    found.close()


def test_it_is_below_ui_and_all_other_paths_are_the_apis(served: Served) -> None:
    status, page = served.open("/ui/connectors")
    assert status == 200
    assert "Overview" in page
    assert json.loads(served.open("/")[1])["version"]
    assert served.open("/uix")[0] == 404
    assert "HTTP 404 Not Found" in served.open("/uix")[1]
    status, page = served.open("/ui/nothing", Accept="application/json")
    assert (status, json.loads(page)["message"]) == (404, "The page is unknown.")
    rows = json.loads(served.open("/ui/api/connectors")[1])["connectors"]["rows"]
    assert [row["name"] for row in rows] == ["c"]


@pytest.mark.parametrize("served", [Users({"ann": "ann-secret"})], indirect=True)
def test_users_of_the_api_log_in_and_their_login_reaches_the_api(served: Served) -> None:
    assert served.open("/ui/api/connectors")[0] == 401
    status, page = served.open("/ui/connectors")
    assert "Log in" in page
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None
    form = {"token": found[1], "user": "ann", "password": "wrong", "next": "/ui/connectors"}
    assert served.open("/ui/login", form)[0] == 401
    page = served.open("/ui/login")[1]
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None
    status, page = served.open("/ui/login", form | {"token": found[1], "password": "ann-secret"})
    assert status == 200
    assert "connector?name=c" in page
    # A script logs in with each request, and its login reaches the API, too.
    served.opener = urllib.request.build_opener()
    login = "Basic " + base64.b64encode(b"ann:ann-secret").decode()
    assert '"c"' in served.open("/ui/api/connectors", Authorization=login)[1]


def test_a_session_shows_its_login_nowhere(served: Served) -> None:
    made = Users({"ann": "ann-secret"})
    console = MountedConsole(ServedConsole(), made, Flows(SETTINGS).read)
    browser = Browser(console)
    login = "Basic " + base64.b64encode(b"ann:ann-secret").decode()
    answer = browser.get("/ui/api/connectors", authorization=login)
    assert answer.status == 200
    assert login not in answer.text
    session = console._make().site.sessions.begin("ann", login)
    assert login not in repr(session)
    console.close()


def test_settings_turn_actions_and_records_off() -> None:
    console = MountedConsole(ServedConsole(actions=False, records=False), None, Flows(SETTINGS).read)
    browser = Browser(console)
    assert browser.get("/ui/connectors").status == 200
    flow = urllib.parse.quote(SETTINGS.name)
    for page, text in (
        ("records", "This console leaves records out: `twinlog.console.records.enabled = false` turned them off."),
        ("topic/confirm", "This console only shows: `twinlog.console.actions.enabled = false` turned actions off."),
        (
            "migration/choose",
            "This console has no migrations: `twinlog.console.actions.enabled = false` turned actions",
        ),
    ):
        answer = browser.get(f"/ui/api/{page}?flow={flow}&topic=t&partition=0")
        assert answer.status == 403
        assert answer.json["message"].startswith(text)
        assert "--" not in answer.json["message"]
    console.close()


def test_a_process_leaves_migrations_to_the_command() -> None:
    console = MountedConsole(ServedConsole(), None, Flows(SETTINGS).read)
    text = Browser(console).get("/ui/migration").text
    assert "a process that runs flows leaves them to <code>twinlog console</code>" in text
    assert "read-only" not in text
    console.close()


def test_flows_come_and_go_while_it_runs() -> None:
    flows, clock = Flows(SETTINGS), MovableClock()
    console = MountedConsole(ServedConsole(), None, flows.read, clock=clock)
    app = console._make()
    other = replace(SETTINGS, source="x", target="y")

    def names(*now: FlowSettings) -> list[str]:
        flows.now = list(now)
        clock.ahead_s += ProcessSources.EVERY_S
        return [flow.settings.name for flow in app.site.live.flows()]

    assert names(SETTINGS) == [SETTINGS.name]
    assert names(SETTINGS, other) == [SETTINGS.name, other.name]
    assert names(other) == [other.name]
    assert Browser(app).get(f"/ui/flow?flow={urllib.parse.quote(SETTINGS.name)}").status == 404
    assert names() == []
    app.close()


def test_a_flow_is_read_once_a_second_and_new_settings_get_new_readers() -> None:
    flows, clock = Flows(SETTINGS), MovableClock()
    console = MountedConsole(ServedConsole(), None, flows.read, clock=clock)
    app = console._make()
    live = app.site.live
    first = live.flow(SETTINGS.name)
    assert live.flow(SETTINGS.name) is first
    assert flows.reads == 1
    clock.ahead_s += ProcessSources.EVERY_S
    assert live.flow(SETTINGS.name) is first
    flows.now = [replace(SETTINGS, lease_seconds=SETTINGS.lease_seconds + 1)]
    clock.ahead_s += ProcessSources.EVERY_S
    second = live.flow(SETTINGS.name)
    assert second is not first
    assert second.points is first.points
    flows.now = []
    clock.ahead_s += ProcessSources.EVERY_S
    assert live.flows() == []
    app.close()


def test_the_listener_of_the_metrics_serves_it_too() -> None:
    console = MountedConsole(ServedConsole(), None, Flows(SETTINGS).read)
    server = MetricsServer(Pages(lambda: Measurements([], []), "exporter"), LOOPBACK, console=console)
    server.start()
    try:
        for path, status in (("/ui/connectors", 200), ("/metrics", 200)):
            with urllib.request.urlopen(f"{server.urls[0]}{path}", timeout=DEADLINE_S) as answer:
                assert answer.status == status
    finally:
        console.close()
        server.stop()


def test_before_its_first_request_it_has_no_thread() -> None:
    before = {one.name for one in threading.enumerate()}
    console: Any = MountedConsole(ServedConsole(), None, Flows(SETTINGS).read)
    assert {one.name for one in threading.enumerate()} == before
    console.close()
