"""A connector from the console of a real worker: created with a mistake, mended, edited, stopped, altered and reset."""

from __future__ import annotations

import html
import json
import re
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from harness.web.browser import launch_chromium
from tests.integration.connect_worker import ConnectWorker, connector, path_of
from tests.integration.ui.test_browser import chromium_program, require_good_pages
from tests.integration.ui.visitor import Visitor

COPIED_S = 120.0
SECRET_KEY = "source.cluster.sasl.jaas.config"


@pytest.fixture
def worker(
    clusters: tuple[KafkaCluster, KafkaCluster], new_name: Callable[[str], str], tmp_path: Path
) -> Iterator[ConnectWorker]:
    found = ConnectWorker(tmp_path, clusters[1], new_name("workers"))
    try:
        yield found.start()
    finally:
        found.close()


class Forms:
    """Sends the forms of a worker's console, and keeps all pages."""

    def __init__(self, worker: ConnectWorker) -> None:
        self.port = urlsplit(worker.url).port or 0
        self.pages: list[str] = []
        self._visitor = Visitor(self.port)

    def open(self, path: str, **query: str) -> dict[str, str]:
        """The fields of a page."""
        return self._fields(self._visitor.page(path, **query))

    def send(self, path: str, fields: Mapping[str, str], **changes: str) -> tuple[int, dict[str, str]]:
        """The status and the fields of the page to which a form leads."""
        try:
            with self._visitor.open(path, {**fields, **changes}) as answer:
                return answer.status, self._fields(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, self._fields(error.read().decode())

    def _fields(self, page: str) -> dict[str, str]:
        self.pages.append(page)
        found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page)
        found += re.findall(r'<textarea id="(\w+)"[^>]*>(.*?)</textarea>', page, re.DOTALL)
        return {name: html.unescape(value) for name, value in found}


def lines(config: Mapping[str, str]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in config.items())


def copied(cluster: KafkaCluster, topic: str, count: int) -> None:
    wait_for(
        lambda: topic in topics(cluster) and len(consume(cluster, topic)) == count,
        COPIED_S,
        f"{topic} has {count} records",
    )


def test_a_connector_from_its_form_to_a_reset(
    clusters: tuple[KafkaCluster, KafkaCluster], worker: ConnectWorker, new_name: Callable[[str], str]
) -> None:
    source, target = clusters
    alias, topic = new_name("s"), create_topic(source, new_name("t"))
    name, remote = f"{alias}->t", f"{alias}.{topic}"
    produce(source, topic, numbered(20))
    forms = Forms(worker)

    # A mistake comes back with the form; the mended form is complete, though the page has no secret.
    config = connector("Source", source, target, name, topics=topic)
    password = source.users["mirrormaker"]
    assert password in config[SECRET_KEY]
    given = {"name": name, "kind": config["connector.class"], "state": "PAUSED"}
    typed = lines({key: value for key, value in config.items() if key != "connector.class"} | {"tasks.max": "many"})
    status, form = forms.send("/connector/new", forms.open("/connector/new"), **given, text=typed, step="create")
    assert status == 400
    assert "tasks.max" in forms.pages[-1]
    assert "1 error" in forms.pages[-1]
    assert worker.ask("GET", "/connectors") == (200, [])
    mended = form["text"].replace("tasks.max = many", "tasks.max = 1")
    status, form = forms.send("/connector/new", form, **given, text=mended, step="check")
    assert status == 200
    assert "The worker finds no error" in forms.pages[-1]
    assert forms.send("/connector/new", form, **given, step="create")[0] == 200
    worker.wait_for_state(name, "PAUSED")
    assert worker.ask("GET", f"{path_of(name)}/config") == (200, {**config, "tasks.max": "1", "name": name})

    # An edit keeps the hidden secrets.
    form = forms.open("/connector/edit", name=name)
    edited = form["text"].replace("refresh.topics.interval.seconds = 1", "refresh.topics.interval.seconds = 2")
    status, form = forms.send("/connector/edit", form, text=edited, step="check")
    assert "~ refresh.topics.interval.seconds = 1 -&gt; 2" in forms.pages[-1]
    assert forms.send("/connector/edit", form, step="save")[0] == 200
    wanted = {**config, "tasks.max": "1", "name": name, "refresh.topics.interval.seconds": "2"}
    assert worker.ask("GET", f"{path_of(name)}/config") == (200, wanted)
    act(forms, name, "resume")
    worker.wait_for_state(name, "RUNNING", tasks=1)
    copied(target, remote, 20)

    # Offsets change only after a stop.
    place = {"cluster": alias, "partition": 0, "topic": topic}
    back = json.dumps({"partition": place, "offset": {"offset": 9}})
    assert forms.send("/connector/offsets", forms.open("/connector/offsets", name=name), lines=back)[0] == 400
    act(forms, name, "stop")
    worker.wait_for_state(name, "STOPPED")
    form = forms.open("/connector/offsets", name=name)
    assert [json.loads(one) for one in form["lines"].splitlines()] == [{"partition": place, "offset": {"offset": 19}}]
    status, form = forms.send("/connector/offsets", form, lines=back)
    assert "10 source offsets copied again" in forms.pages[-1]
    assert forms.send("/connector/offsets/act", form, verb="alter", typed="other")[0] == 400
    assert forms.send("/connector/offsets/act", form, verb="alter", typed=name)[0] == 200
    assert worker.ask("GET", f"{path_of(name)}/offsets") == (200, {"offsets": [json.loads(back)]})
    act(forms, name, "resume")
    copied(target, remote, 30)

    act(forms, name, "stop")
    worker.wait_for_state(name, "STOPPED")
    form = forms.open("/connector/offsets/reset", name=name)
    assert forms.send("/connector/offsets/act", form, verb="reset", typed=name)[0] == 200
    assert worker.ask("GET", f"{path_of(name)}/offsets") == (200, {"offsets": []})
    assert password not in "".join(forms.pages)
    actions = re.findall(r'action="([\w ]+)" connector="[^"]*".*outcome="accepted"', worker.log)
    assert actions == [
        *("create connector", "edit connector", "resume connector", "stop connector", "alter offsets"),
        *("resume connector", "stop connector", "reset offsets"),
    ]
    assert password not in worker.log
    assert "Traceback" not in worker.log


def act(forms: Forms, name: str, verb: str) -> None:
    assert forms.send("/connector/act", forms.open("/connector", name=name), name=name, verb=verb)[0] == 200


def test_the_forms_in_a_browser(
    clusters: tuple[KafkaCluster, KafkaCluster], worker: ConnectWorker, new_name: Callable[[str], str]
) -> None:
    program = chromium_program()
    name = f"{new_name('s')}->t"
    config = connector("Heartbeat", *clusters, name, emit_heartbeats_interval_seconds="1")
    body = {"name": name, "config": config, "initial_state": "STOPPED"}
    assert worker.ask("POST", "/connectors", body)[0] == 201
    worker.wait_for_state(name, "STOPPED")
    pages: list[tuple[str, dict[str, str]]] = [("/connectors", {}), ("/connector/new", {})]
    pages += [(f"/connector{page}", {"name": name}) for page in ("", "/edit", "/offsets", "/offsets/reset")]
    root = f"http://127.0.0.1:{Forms(worker).port}"
    with sync_playwright() as play:
        chromium = launch_chromium(play, program)
        for theme, width in (("light", 1440), ("dark", 390)):
            require_good_pages(root, pages, [name], chromium, theme, width)
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{root}/ui/connector/edit?name={quote(name)}")
        text = page.locator("#text").input_value()
        key = "emit.heartbeats.interval.seconds"
        page.locator("#text").fill(text.replace(f"{key} = 1", f"{key} = many"))
        page.get_by_role("button", name="Check").click()
        page.get_by_role("cell", name="Invalid value many").first.wait_for()
        assert f"{key} = many" in page.locator("#text").input_value()
        chromium.close()
