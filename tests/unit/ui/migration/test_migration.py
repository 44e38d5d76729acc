"""A migration from two addresses: the draft as a file, and the pages up to the run."""

from __future__ import annotations

import html
import logging
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.wait import wait_for
from tests.unit.ui.browser import Answer, Browser
from tests.unit.ui.fakes import FakeSources
from tests.unit.ui.test_accessible import Outline
from twinlog.config import load
from twinlog.console.flow_files import FlowsOfFile
from twinlog.errors import ClusterError, ConfigError, RequestError
from twinlog.mirror.topology.plugins import group_filter_of
from twinlog.model.types import Alias, GroupId, TopicName
from twinlog.ops.plan.flow_plan import FlowPlan, Problem, TopicCopyPlan
from twinlog.settings.flow import FlowSettings
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.migration.draft import ClusterAddress, MigrationDraft
from twinlog.ui.migration.migration_run import MigrationRun
from twinlog.ui.migration.migrations import FoundClusters, FoundTopic, MigrationStore, flows_of
from twinlog.ui.site import ConsoleSettings
from twinlog.ui.sources import ConsoleSources

EAST = ClusterAddress("east", "east-1:9092, east-2:9092")
WEST = ClusterAddress("west", "west:9093", "SASL_SSL", "SCRAM-SHA-512", 'o"li\\ver', 'pa"ss\\ =:#!')
DRAFT = MigrationDraft(EAST, WEST)
ADDRESSES = {
    "source_alias": "east",
    "source_servers": "east-1:9092",
    "source_protocol": "PLAINTEXT",
    "target_alias": "west",
    "target_servers": "west:9093",
    "target_protocol": "SASL_PLAINTEXT",
    "target_mechanism": "PLAIN",
    "target_user": "mover",
    "target_password": "mover-secret",
}
FOUND = FoundClusters(
    (FoundTopic(TopicName("a.b"), 2, 10, 1000, False), FoundTopic(TopicName("axb"), 1, 5, None, True)),
    3,
    (GroupId("shop"), GroupId("till")),
    7,
    ("sizes are unread",),
    3,
    1,
)


class ScriptedStore(MigrationStore):
    """Both clusters have given content."""

    def __init__(self, sources: ConsoleSources, home: Path) -> None:
        super().__init__(sources, home)
        self.fails: Exception | None = None
        self.problems: tuple[Problem, ...] = ()

    def read_clusters(self, flow: FlowSettings) -> FoundClusters:
        if self.fails is not None:
            raise self.fails
        return FOUND

    def read_plan(self, flows: Sequence[FlowSettings]) -> FlowPlan:
        copy = TopicCopyPlan(TopicName("a.b"), TopicName("a.b"), 2, 10, 1000)
        return FlowPlan(flows[0].name, flows[0].source, flows[0].target, 50e6, copy=(copy,), problems=self.problems)


@pytest.fixture
def store(app: ConsoleApp, sources: FakeSources, tmp_path: Path) -> ScriptedStore:
    found = ScriptedStore(sources, tmp_path)
    app.site.migrations = found
    return found


def token(browser: Browser) -> str:
    return browser.get("/ui/migration").token


def look(browser: Browser, **changes: str) -> Answer:
    return browser.post("/ui/migration/look", {**ADDRESSES, "token": token(browser), **changes})


def begun(browser: Browser) -> str:
    answer = look(browser)
    assert answer.status == 303, answer.text
    found = re.fullmatch(r"/ui/migration/choose\?id=([\w-]+)", answer.headers["location"])
    assert found is not None
    return found[1]


def plan(browser: Browser, migration: str, *fields: tuple[str, str]) -> Answer:
    pairs = [("token", token(browser)), ("id", migration), *fields]
    body = "&".join(f"{name}={html.unescape(value)}" for name, value in pairs).encode()
    return browser.post("/ui/migration/plan", body)


def act(browser: Browser, migration: str, mode: str, **changes: str) -> Answer:
    """Send the form of the page of a plan."""
    shown = browser.json(f"/ui/migration/plan?id={migration}")
    form = {"token": token(browser), "id": migration, "draft": shown["draft"], "mode": mode}
    return browser.post("/ui/migration/run", form | changes)


def listed(browser: Browser) -> list[tuple[str, str]]:
    """The migrations on the page: each with its flow and its state."""
    return [(one["flow"], one["state"]) for one in browser.json("/ui/migration")["migrations"]]


def test_a_draft_is_a_file_that_twinlog_takes(tmp_path: Path) -> None:
    draft = replace(DRAFT, topics=("a.b", "x"), groups=("g.1",), source_replicas=3, target_replicas=2)
    (path := tmp_path / "f.properties").write_text(draft.text(), encoding="utf-8")
    (flow,) = [one for one in load(path).flows if one.enabled]
    assert (flow.name, flow.topics, flow.groups) == ("east->west", ("a[.]b", "x"), ("g[.]1",))
    assert flow.replication_factor == 2
    assert flow.offset_storage_replication_factor == 2
    assert flow.sync_group_offsets_interval_s is not None
    assert flow.sync_topic_acls_interval_s is None
    client = flow.target_admin.client
    assert client.bootstrap_servers == ("west:9093",)
    assert (client.sasl_username, client.sasl_password) == ('o"li\\ver', 'pa"ss\\ =:#!')
    assert flow.source_admin.client.bootstrap_servers == ("east-1:9092", "east-2:9092")
    assert "=:#!" not in draft.text(hides=True)
    assert "[hidden]" in draft.text(hides=True)
    trusting = replace(draft, target=replace(draft.target, authorities="-----BEGIN\r\nabc\r\n-----END"))
    assert r"west.ssl.truststore.certificates = -----BEGIN\nabc\n-----END" in trusting.text()
    assert "west.ssl.truststore.type = PEM" in trusting.text()
    assert "=:#!" not in repr(draft)


@pytest.mark.parametrize("groups", [("a,b",), (" x", "y\t", "z\u2003"), ("$^", "{1,2}", "${env:HOME}", "a|b", "\\x")])
def test_an_expression_matches_its_name_only(groups: tuple[str, ...]) -> None:
    takes = group_filter_of(flows_of(replace(DRAFT, groups=groups))[0]).accepts
    assert all(takes(name) for name in groups)
    parts = {part for name in groups for part in name.split(",") if len(name.split(",")) > 1}
    assert not any(takes(name) for name in {*parts, "a", "x", "other"} - set(groups))


def test_without_a_ticked_group_no_group_moves(browser: Browser, store: ScriptedStore) -> None:
    migration = begun(browser)
    assert plan(browser, migration, ("topic", "a.b"), ("groups", "yes")).status == 303
    draft = store.find(migration).draft
    assert (draft.groups, draft.syncs_groups) == ((), False)
    flow = flows_of(draft)[0]
    assert not any(group_filter_of(flow).accepts(name) for name in ("shop", "till", "later"))
    assert "group" not in browser.get(f"/ui/migration/choose?id={migration}").fields
    # Of a source without groups, all later groups are followed.
    store.find(migration).found = replace(FOUND, groups=())
    assert plan(browser, migration, ("topic", "a.b"), ("groups", "yes")).status == 303
    draft = store.find(migration).draft
    assert (draft.groups, draft.syncs_groups) == (None, True)


@pytest.mark.parametrize(("kept", "remote"), [(True, "a.b"), (False, "east.a.b")])
def test_names_are_kept_or_prefixed(kept: bool, remote: str) -> None:
    from twinlog.mirror.topology.topology import topology_of

    flow = flows_of(replace(DRAFT, keeps_names=kept))[0]
    assert topology_of(flow).remote_name(TopicName("a.b")) == remote


def test_a_wrong_draft_names_the_key_and_no_folder() -> None:
    with pytest.raises(ConfigError) as wrong:
        flows_of(replace(DRAFT, source=replace(EAST, servers="nowhere")))
    assert "mm2.properties" in str(wrong.value)
    assert "bootstrap.servers" in str(wrong.value)
    assert "twinlog-draft" not in str(wrong.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"source_alias": "a->b"}, "The source cluster needs a name of letters, digits, - and _; found 'a->b'."),
        ({"target_alias": "east"}, "Both clusters are named east: give them two names."),
        ({"source_servers": ""}, "Write the addresses of east as HOST:PORT"),
        ({"source_servers": "a:1 b:2"}, "Write the addresses of east as HOST:PORT"),
        ({"source_protocol": "FTP"}, "The protocol 'FTP' is unknown"),
        ({"target_mechanism": "GSSAPI"}, "west needs a mechanism"),
        ({"target_user": ""}, "west needs a mechanism"),
        ({"target_password": "p" * 20_001}, "A field of west is longer than 20000 characters."),
        ({"source_servers": "east"}, "east.bootstrap.servers"),
    ],
)
@pytest.mark.usefixtures("store")
def test_wrong_addresses_are_named(browser: Browser, changes: dict[str, str], text: str) -> None:
    answer = look(browser, **changes)
    assert answer.status == 400
    assert text in html.unescape(answer.text)
    assert "mover-secret" not in answer.text


def test_addresses_with_a_mistake_come_back_without_passwords(browser: Browser, store: ScriptedStore) -> None:
    typed = {
        **ADDRESSES,
        "source_servers": 'east-1:9092"><b>',
        "source_password": "other-secret",
        "source_authorities": "-----BEGIN\n</textarea>",
        "target_alias": "east",
        "target_mechanism": "SCRAM-SHA-512",
    }
    shown = {**typed, "source_password": "", "target_password": ""}

    def require_filled(answer: Answer) -> None:
        assert {name: answer.fields[name] for name in shown} == {name: [value] for name, value in shown.items()}
        assert "secret" not in answer.text
        assert "type these again" in answer.text
        outline = Outline()
        outline.feed(answer.text)
        assert outline.open == []
        assert all(field.get("id") in outline.labels for field in outline.fields)

    answer = look(browser, **typed)
    assert answer.status == 400
    assert "Both clusters are named east" in answer.text
    require_filled(answer)
    shown["target_alias"] = "west"
    store.fails = ClusterError("cluster east: no broker can be reached")
    shown["source_servers"] = "east-1:9092"
    shown["source_authorities"] = ""
    answer = look(browser, **{**typed, **shown, "target_password": "mover-secret", "source_password": "other-secret"})
    assert answer.status == 502
    require_filled(answer)
    twin = browser.post("/ui/api/migration/look", {**typed, "token": token(browser)})
    assert (twin.status, twin.json["error_code"]) == (400, 400)
    assert "Both clusters are named east" in twin.json["message"]
    assert "secret" not in twin.text


def test_a_choice_with_a_mistake_comes_back_as_it_was_ticked(browser: Browser, store: ScriptedStore) -> None:
    migration = begun(browser)
    answer = plan(browser, migration, ("names", "prefixed"), ("group", "till"), ("acls", "yes"))
    assert answer.status == 400
    assert "Tick a topic, or several." in answer.text
    fields = answer.fields
    assert (fields["names"], fields["group"], fields["acls"]) == (["prefixed"], ["till"], ["yes"])
    assert "topic" not in fields
    assert "groups" not in fields
    # Until a plan is made the migration has the choice of before.
    assert browser.get(f"/ui/migration/choose?id={migration}").fields["topic"] == ["a.b", "axb"]
    # A form that names a topic twice means this topic alone.
    assert plan(browser, migration, ("topic", "a.b"), ("topic", "a.b")).status == 303
    assert store.find(migration).draft.topics == ("a.b",)


def test_a_silent_cluster_is_named(browser: Browser, store: ScriptedStore) -> None:
    store.fails = ClusterError("cluster east: no broker can be reached")
    answer = look(browser)
    assert answer.status == 502
    assert "no broker can be reached" in answer.text


def test_topics_are_chosen_planned_and_kept(
    browser: Browser, store: ScriptedStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "twinlog.audit")
    migration = begun(browser)
    page = browser.json(f"/ui/migration/choose?id={migration}")
    assert [(row["topic"], row["ticked"], row["there"]) for row in page["topics"]] == [
        ("a.b", True, False),
        ("axb", True, True),
    ]
    assert [row["group"] for row in page["groups"]] == ["shop", "till"]
    text = browser.get(f"/ui/migration/choose?id={migration}").text
    assert "sizes are unread" in text
    assert "mover-secret" not in text

    answer = plan(browser, migration, ("names", "kept"), ("groups", "yes"), ("topic", "a.b"), ("group", "till"))
    assert answer.status == 303
    shown = browser.json(f"/ui/migration/plan?id={migration}")
    assert (shown["records"], shown["bytes"], shown["problems"], shown["file"]) == (10, 1000, [], None)
    assert "east->west.topics = a[.]b" in shown["text"]
    assert "east->west.groups = till" in shown["text"]
    assert "east->west.replication.factor = 1" in shown["text"]
    assert "east->west.offset-syncs.topic.replication.factor = 3" in shown["text"]
    assert "mover-secret" not in shown["text"]
    assert browser.get(f"/ui/migration/plan?id={migration}").status == 200

    assert act(browser, migration, "keep").status == 303
    (file,) = tmp_path.iterdir()
    assert file.name == "east-to-west.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert 'password="mover-secret"' in file.read_text()
    assert browser.json(f"/ui/migration/plan?id={migration}")["file"] == str(file)
    # Written once more it is the same file; a changed draft is a file beside it.
    assert act(browser, migration, "keep").status == 303
    plan(browser, migration, ("names", "prefixed"), ("topic", "a.b"), ("topic", "axb"))
    assert act(browser, migration, "keep").status == 303
    assert sorted(one.name for one in tmp_path.iterdir()) == ["east-to-west-2.properties", file.name]
    assert "east->west.topics = .*" in (tmp_path / "east-to-west-2.properties").read_text()
    assert any("keep migration" in one.getMessage() for one in caplog.records)
    assert "mover-secret" not in caplog.text


def test_wrong_choices_are_named(browser: Browser, store: ScriptedStore) -> None:
    migration = begun(browser)
    assert "Tick a topic, or several" in plan(browser, migration, ("names", "kept")).text
    assert plan(browser, migration, ("topic", "elsewhere")).status == 400
    assert plan(browser, "unknown", ("topic", "a.b")).status == 404
    assert browser.get(f"/ui/migration/plan?id={migration}").status == 404
    form = {"token": token(browser), "id": migration, "mode": "run"}
    assert browser.post("/ui/migration/run", form).status == 400
    store.problems = (Problem("disk", "west is too full"),)
    plan(browser, migration, ("topic", "a.b"))
    assert "west is too full" in browser.get(f"/ui/migration/plan?id={migration}").text


def sleep_in_place_of_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the processes of migrations write their arguments to their logs, and sleep."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\necho "$@"\nexec {sys.executable} -c "import time; time.sleep(600)"\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def run_of(store: ScriptedStore, migration: str) -> MigrationRun:
    found = store.find(migration).run
    assert found is not None
    return found


def test_a_later_draft_waits_for_the_process_and_runs_with_its_own_flow(
    browser: Browser, store: ScriptedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep_in_place_of_runs(tmp_path, monkeypatch)
    migration = begun(browser)
    plan(browser, migration, ("names", "kept"), ("topic", "a.b"))
    assert act(browser, migration, "run").status == 303
    first = run_of(store, migration)
    assert store._sources.flow("east->west").topics == ("a[.]b",)
    answer = plan(browser, migration, ("names", "kept"), ("topic", "axb"))
    assert answer.status == 409
    assert f"Process {first.process.pid} runs {first.file} already" in answer.text
    assert store.find(migration).draft.topics == ("a.b",)
    store.close()

    assert plan(browser, migration, ("names", "kept"), ("topic", "axb")).status == 303
    # Until the next start the pages show the flow of the process, and its log.
    assert store._sources.flow("east->west").topics == ("a[.]b",)
    assert browser.json(f"/ui/migration/plan?id={migration}")["log"] == str(first.log)
    assert act(browser, migration, "run").status == 303
    second = run_of(store, migration)
    assert second.file != first.file
    assert second.draft.topics == ("axb",)
    assert store._sources.flow("east->west").topics == ("axb",)
    store.close()


def test_the_run_is_a_process_whose_flow_joins_the_pages(
    browser: Browser, store: ScriptedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep_in_place_of_runs(tmp_path, monkeypatch)
    migration = begun(browser)
    plan(browser, migration, ("topic", "a.b"))
    answer = act(browser, migration, "run")
    assert answer.status == 303
    assert answer.headers["location"] == "/ui/readiness?flow=east-%3Ewest"
    assert "east->west" in store._sources.flows
    shown = browser.json(f"/ui/migration/plan?id={migration}")
    assert shown["process"]["code"] is None
    assert "and run it" not in browser.get(f"/ui/migration/plan?id={migration}").text
    assert act(browser, migration, "run").status == 409
    assert browser.json(f"/ui/migration/plan?id={migration}")["process"] == shown["process"]
    first = run_of(store, migration)
    # A signal may else end the process before its first line.
    arguments = f"-m twinlog.ui.migration.tethered_run {first.file}"
    wait_for(lambda: arguments in first.log.read_text(), 60, "the process has written its arguments")
    store.close()
    assert first.code is not None
    # An ended process is followed by another, with the same file.
    assert "and run it again" in browser.get(f"/ui/migration/plan?id={migration}").text
    assert act(browser, migration, "run").status == 303
    assert run_of(store, migration).process.pid != first.process.pid
    assert run_of(store, migration).file == first.file
    store.close()
    assert first.process.stdin is not None
    assert first.process.stdin.closed


def test_a_further_migration_of_the_same_names_waits_for_the_process_and_replaces_its_flow(
    browser: Browser, store: ScriptedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep_in_place_of_runs(tmp_path, monkeypatch)
    first = begun(browser)
    plan(browser, first, ("names", "kept"), ("topic", "a.b"))
    assert act(browser, first, "run").status == 303
    other = begun(browser)
    plan(browser, other, ("names", "kept"), ("topic", "axb"))
    files = sorted(tmp_path.iterdir())
    answer = act(browser, other, "run")
    assert answer.status == 409
    assert "stop it first" in answer.text
    # A refused run leaves no file behind.
    assert sorted(tmp_path.iterdir()) == files
    pid = run_of(store, first).process.pid
    assert listed(browser) == [("east->west", "planned"), ("east->west", f"process {pid} runs")]
    assert act(browser, first, "forget").status == 409
    assert act(browser, first, "stop").status == 303
    assert act(browser, first, "stop").status == 409
    assert listed(browser)[1][1].startswith(f"process {pid} ended with code ")
    assert act(browser, other, "run").status == 303
    assert store._sources.flow("east->west").topics == ("axb",)
    # The earlier migration is no longer the shown one.
    assert act(browser, first, "forget", draft="").headers["location"] == "/ui/migration"
    assert "east->west" in store._sources.flows
    act(browser, other, "stop")
    file = run_of(store, other).file
    assert "Run again" in browser.get("/ui/migration").text
    assert act(browser, other, "forget").status == 303
    assert listed(browser) == []
    assert "east->west" not in store._sources.flows
    assert file.exists()


def test_a_flow_of_a_file_of_the_console_is_never_replaced(
    browser: Browser, store: ScriptedStore, tmp_path: Path
) -> None:
    store._sources.show_file(FlowsOfFile(flows_of(DRAFT)))
    migration = begun(browser)
    plan(browser, migration, ("topic", "a.b"))
    answer = act(browser, migration, "run")
    assert answer.status == 409
    assert "The console shows a flow east-&gt;west already." in answer.text
    assert list(tmp_path.iterdir()) == []
    assert listed(browser) == [("east->west", "planned")]


def test_a_process_that_does_not_start_leaves_no_flow_and_the_next_try_starts_it(
    browser: Browser, store: ScriptedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep_in_place_of_runs(tmp_path, monkeypatch)
    migration = begun(browser)
    plan(browser, migration, ("topic", "a.b"))
    log = tmp_path / "east-to-west.log"
    log.mkdir()
    answer = act(browser, migration, "run")
    assert answer.status == 409
    assert f"The process did not start: {log}: Is a directory." in answer.text
    assert "east->west" not in store._sources.flows
    assert store.find(migration).run is None
    log.rmdir()
    assert act(browser, migration, "run").status == 303
    assert "east->west" in store._sources.flows
    store.close()


@pytest.mark.parametrize("mode", ["keep", "run"])
def test_a_page_runs_the_plan_that_it_shows(browser: Browser, store: ScriptedStore, tmp_path: Path, mode: str) -> None:
    migration = begun(browser)
    plan(browser, migration, ("topic", "a.b"))
    shown = browser.get(f"/ui/migration/plan?id={migration}").fields["draft"]
    # Another tab plans another choice.
    plan(browser, migration, ("topic", "axb"))
    for digest in (*shown, "", "x"):
        answer = act(browser, migration, mode, draft=digest)
        assert answer.status == 409
        assert "The plan has changed since this page was shown" in answer.text
    assert list(tmp_path.iterdir()) == []
    assert act(browser, migration, "keep").status == 303
    # The password of a cluster stays out of the digest, which every user of the console sees.
    assert replace(DRAFT, target=replace(WEST, password="other")).digest == DRAFT.digest


def test_a_console_that_only_shows_has_no_migration(sources: FakeSources, browser: Browser, tmp_path: Path) -> None:
    assert "has no migrations" in browser.get("/ui/migration").text
    assert browser.post("/ui/migration/look", {**ADDRESSES, "token": "x"}).status == 403
    app = console_app(sources, ConsoleSettings(actions=False, migrations=tmp_path))
    text = Browser(app).get("/ui/migration").text
    assert "This console has no migrations: <code>--read-only</code> turned actions off." in text
    app.close()


def test_a_console_forgets_old_migrations(tmp_path: Path) -> None:
    store: Any = ScriptedStore(FakeSources(), tmp_path)
    first = store.begin_migration(DRAFT)
    for _ in range(20):
        store.begin_migration(DRAFT)
    with pytest.raises(RequestError, match="begin again"):
        store.find(first.id)
    assert Alias("east") == first.draft.source.alias
