"""Whatever is asked of a worker, and however many ask at once: what it acknowledged is what it has, and runs once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.wait import wait_for
from tests.unit.connect.serving import Client, Response
from tests.unit.connect.worker.whole_worker import BODY_BYTES, Beats, whole_worker

HEARTBEAT = {
    "connector.class": "MirrorHeartbeat",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "127.0.0.1:2",
}

ODD = [
    "a->b",
    "a/b",
    "..",
    ".",
    "a;b",
    "a+b",
    "100%",
    "a%20b",
    " x ",
    "a\\b",
    'it\'s "so"',
    "[a]{b}",
    "心跳",
    "\u00a0",
    "a?b#c",
]
names = st.one_of(
    st.sampled_from(["c", *ODD]), st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
)
wrong_names = st.sampled_from(["", " ", "\t", "a\nb", "a\0b", "a\x7fb"])
wrong_values = st.one_of(
    st.none(), st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)
)
good = st.fixed_dictionaries(
    {},
    optional={
        "tasks.max": st.one_of(st.integers(1, 9), st.sampled_from(["1", " 2 "])),
        "emit.heartbeats.enabled": st.booleans(),
        "note": st.one_of(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
            st.floats(allow_nan=False, allow_infinity=False),
            st.booleans(),
        ),
    },
).map(lambda more: {**HEARTBEAT, **more})
wrong = st.one_of(
    st.builds(lambda key, value: {**HEARTBEAT, key: value}, st.sampled_from(["note", *HEARTBEAT]), wrong_values),
    st.sampled_from(
        [
            {},
            {**HEARTBEAT, "tasks.max": "0"},
            {**HEARTBEAT, "tasks.max": "many"},
            {**HEARTBEAT, "connector.class": "org.example.Jdbc"},
            {**HEARTBEAT, "name": "another"},
            {**HEARTBEAT, "note": "x" * BODY_BYTES},
        ]
    ),
)
no_json = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"[" * 5000, b'{"name":', b"\xef\xbb\xbf", b'{"a":\xff}', b"null"])
)
states = st.sampled_from(
    ["pause", "resume", "stop", "restart", "restart?includeTasks=true", "tasks/0/restart", "topics/reset"]
)


def path(name: str, more: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{more}"


steps = st.one_of(
    st.tuples(st.just("PUT"), names.map(lambda name: path(name, "/config")), good),
    st.tuples(st.just("PUT"), st.one_of(names, wrong_names).map(lambda name: path(name, "/config")), wrong),
    st.tuples(
        st.just("POST"),
        st.just("/connectors"),
        st.builds(
            lambda name, config, state: {"name": name, "config": config, **state},
            st.one_of(names, wrong_names),
            st.one_of(good, wrong),
            st.sampled_from(
                [{}, {"initial_state": "PAUSED"}, {"initial_state": "stopped"}, {"initial_state": "SLEEPING"}]
            ),
        ),
    ),
    st.tuples(st.just("POST"), st.just("/connectors"), no_json),
    st.tuples(st.just("PUT"), names.map(lambda name: path(name, "/config")), no_json),
    st.tuples(
        st.just("PATCH"),
        names.map(lambda name: path(name, "/config")),
        st.sampled_from(
            [{"note": "patched"}, {"note": None}, {"connector.class": None}, {"tasks.max": "x"}, {"name": "d"}, []]
        ),
    ),
    st.tuples(st.just("DELETE"), names.map(path), st.none()),
    st.tuples(
        st.sampled_from(["PUT", "POST"]),
        st.builds(lambda name, state: path(name, f"/{state}"), names, states),
        st.none(),
    ),
    st.tuples(
        st.just("PATCH"),
        names.map(lambda name: path(name, "/offsets")),
        st.sampled_from([{"offsets": [{"partition": {}, "offset": {}}]}, {"offsets": "all"}, {}]),
    ),
)


@pytest.fixture(scope="module")
def worker() -> Iterator[tuple[Client, Beats]]:
    with whole_worker() as found:
        yield found


def taken(kept: dict[str, Mapping[str, str]], method: str, target: str, answer: Response) -> None:
    """What a worker must have after it has acknowledged this."""
    if answer.status in (200, 201) and (target.endswith("/config") or target == "/connectors"):
        name = answer.json["name"]
        assert target in ("/connectors", path(name, "/config"))
        assert answer.json["config"]["name"] == name
        kept[name] = answer.json["config"]
    if answer.status == 204 and method == "DELETE":
        del kept[next(name for name in kept if path(name) == target)]


def test_every_odd_name_is_taken(worker: tuple[Client, Beats]) -> None:
    client, _ = worker
    for name in ODD:
        assert client.ask("PUT", path(name, "/config"), HEARTBEAT).status == 201, name
        assert client.get(path(name)).json["name"] == name
        assert client.ask("DELETE", path(name)).status == 204, name


@settings(max_examples=30)
@given(st.lists(steps, min_size=1, max_size=12))
def test_the_list_is_what_was_acknowledged(worker: tuple[Client, Beats], asked: list[tuple[str, str, Any]]) -> None:
    client, _ = worker
    kept: dict[str, Mapping[str, str]] = {}
    for method, target, body in asked:
        answer = client.ask(method, target, body)
        assert 200 <= answer.status < 500, (method, target, body)
        if answer.status >= 400:
            assert answer.message
        if method == "PUT" and target.endswith("/config") and isinstance(body, dict):
            assert answer.status in (200, 201) or not sound(body)
        taken(kept, method, target, answer)
        found = client.get("/connectors?expand=info&expand=status").json
        assert {name: one["info"]["config"] for name, one in found.items()}.items() <= kept.items()
        assert sorted(client.get("/connectors").json) == sorted(kept)
    # Whatever it took can be read and removed by its name.
    for name, config in kept.items():
        assert client.get(path(name, "/config")).json == config
        assert client.ask("DELETE", path(name)).status == 204
    assert client.get("/connectors").json == []


def sound(config: dict[str, Any]) -> bool:
    """Whether nothing in a configuration of these tests is wrong."""
    plain = all(isinstance(value, str | int | float) for value in config.values())
    short = sum(len(str(value)) for value in config.values()) < BODY_BYTES / 2
    return (
        plain
        and short
        and set(HEARTBEAT) <= set(config)
        and all(config[key] == HEARTBEAT[key] for key in HEARTBEAT)
        and str(config.get("tasks.max", "1")).strip() not in ("0", "many")
        and "name" not in config
    )


def test_many_at_once_leave_what_was_acknowledged_and_run_it_once(worker: tuple[Client, Beats], chance: Random) -> None:
    client, beats = worker
    kept: list[dict[str, Mapping[str, str]]] = [{} for _ in range(4)]
    wrong_answers: list[Any] = []

    def change(own: dict[str, Mapping[str, str]], number: int, draw: Random) -> None:
        """Each thread creates, changes and removes its own, and has those of all restart, pause and go on."""
        for turn in range(40):
            name = f"c{number}-{draw.randrange(3)}"
            other = f"c{draw.randrange(4)}-{draw.randrange(3)}"
            method, target, body = draw.choice(
                [
                    ("PUT", path(name, "/config"), {**HEARTBEAT, "note": f"{turn}"}),
                    ("PUT", path(name, "/config"), {**HEARTBEAT, "emit.heartbeats.interval.seconds": str(turn + 1)}),
                    ("POST", "/connectors", {"name": name, "config": {**HEARTBEAT, "note": "posted"}}),
                    ("PATCH", path(name, "/config"), {"note": f"patched {turn}"}),
                    ("DELETE", path(name), None),
                    ("POST", path(other, "/restart?includeTasks=true"), None),
                    ("POST", path(other, "/tasks/0/restart"), None),
                    ("PUT", path(other, f"/{draw.choice(['pause', 'resume', 'stop'])}"), None),
                ]
            )
            answer = client.ask(method, target, body)
            if answer.status >= 500:
                wrong_answers.append((method, target, answer))
            taken(own, method, target, answer)

    threads = [
        threading.Thread(target=change, args=(own, number, Random(chance.random()))) for number, own in enumerate(kept)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong_answers == []
    expected = {name: config for own in kept for name, config in own.items()}
    found = client.get("/connectors?expand=info").json
    assert {name: one["info"]["config"] for name, one in found.items()} == expected
    for name in expected:
        assert client.ask("PUT", path(name, "/resume")).status == 202

    def all_run() -> bool:
        running = {name: count for name, count in beats.now.items() if count}
        return running == dict.fromkeys(expected, 1)

    wait_for(all_run, 60, f"{sorted(expected)} run")
    assert set(beats.most.values()) <= {0, 1}, beats.most
    for name in expected:
        assert client.ask("DELETE", path(name)).status == 204
    wait_for(lambda: not any(beats.now.values()), 60, "nothing runs")
