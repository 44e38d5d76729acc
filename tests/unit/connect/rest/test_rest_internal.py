"""What workers ask of each other is signed with the session key of their group."""

from __future__ import annotations

import base64

import pytest

from tests.unit.connect.serving import Client, serving
from twinlog.connect.rest.forward import ALGORITHM, SIGNATURE, sign


def signed(body: bytes, key: bytes = b"session key", algorithm: str = "HmacSHA256") -> dict[str, str]:
    return {SIGNATURE: base64.b64encode(sign(key, body, algorithm)).decode(), ALGORITHM: algorithm}


def test_a_worker_stores_task_configs_and_fences(client: Client) -> None:
    body = b'[{"a": 1}, {"a": "2"}]'
    assert client.ask("POST", "/connectors/c/tasks", body, signed(body)).status == 204
    assert [entry["config"] for entry in client.get("/connectors/c/tasks").json] == [{"a": "1"}, {"a": "2"}]
    assert client.ask("PUT", "/connectors/c/fence", headers=signed(b"")).status == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({SIGNATURE: "AAAA"}, 400),
        ({SIGNATURE: "AAAA", ALGORITHM: "Rot13"}, 400),
        ({SIGNATURE: "%%%", ALGORITHM: "HmacSHA256"}, 400),
        (signed(b"[]", algorithm="HmacSHA1"), 400),
        (signed(b"[]", key=b"another"), 403),
        (signed(b"[ ]"), 403),
    ],
)
def test_who_does_not_sign_right_is_no_worker(client: Client, headers: dict[str, str], status: int) -> None:
    answer = client.ask("POST", "/connectors/c/tasks", b"[]", headers)
    assert answer.status == status
    assert answer.message
    assert "put_task_configs" not in client.herder.calls


def test_a_session_key_may_not_be_known_yet(client: Client) -> None:
    client.herder.key = None
    assert client.ask("PUT", "/connectors/c/fence", headers=signed(b"")).status == 503


def test_workers_of_older_protocols_do_not_sign() -> None:
    with serving(signatures=None) as client:
        client.ask("PUT", "/connectors/c/config", {"a": "b"})
        assert client.ask("POST", "/connectors/c/tasks", b"[]").status == 204
