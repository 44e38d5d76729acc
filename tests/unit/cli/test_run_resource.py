"""What of a resource becomes a setting of Spark's, and what it can be run with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from twinlog.cli.main import app
from twinlog.cli.run_resource import driver_memory, memory_warning
from twinlog.connect.rest.users import Credentials, Users


@pytest.mark.parametrize(
    ("given", "taken"),
    [(None, None), ("512m", "512m"), ("1g", "1024m"), ("2G", "2048m"), ("700M", "700m"), ("1073741824", "1024m")],
)
def test_the_memory_of_a_resource_is_that_of_sparks_jvm(given: str | None, taken: str | None) -> None:
    config: Any = SimpleNamespace(resource=SimpleNamespace(driver_memory=None if given is None else given.lower()))
    assert driver_memory(config).get("spark.driver.memory") == taken
    assert memory_warning(config) is None


def test_what_is_too_little_for_spark_is_left_out_and_named() -> None:
    config: Any = SimpleNamespace(resource=SimpleNamespace(driver_memory="256m"))
    assert driver_memory(config) == {}
    assert memory_warning(config) == (
        "spec.jvmOptions.-Xmx: 256m is too little for Spark, which gets 512m instead: write that, or leave the key out"
    )


@pytest.fixture
def resource(tmp_path: Path) -> Path:
    """One whose worker never starts."""
    path = tmp_path / "mirror.yaml"
    path.write_text(
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\nmetadata: {name: mirror}\nspec:\n  replicas: 1\n"
        "  target: {alias: b, bootstrapServers: b:9092, groupId: g, configStorageTopic: c, statusStorageTopic: s,\n"
        "    offsetStorageTopic: o}\n  mirrors: [{source: {alias: a, bootstrapServers: a:9092}, sourceConnector: {}}]\n"
    )
    return path


def test_users_of_the_rest_api(resource: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Users | None] = []

    def run_worker(config: object, users: Users | None, *_: object, **__: object) -> int:
        given.append(users)
        return 0

    def end(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("twinlog.cli.run_resource.run_worker", run_worker)
    monkeypatch.setattr("twinlog.cli.run_resource.end_process", end)
    users = resource.with_name("users")
    users.write_text("me = hush\n")
    assert CliRunner().invoke(app, ["run", str(resource), "--users", str(users)]).exit_code == 0
    assert CliRunner().invoke(app, ["run", str(resource)]).exit_code == 0
    known, everybody = given
    assert known is not None
    assert known.known(Credentials("me", "hush"))
    assert not known.known(Credentials("me", "other"))
    assert everybody is None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--users", "/nowhere/users"], "/nowhere/users: error: it cannot be read"),
        (["--until", "caught-up"], "belong to a group of workers"),
        (["--clusters", "b"], "a resource has a single target"),
    ],
)
def test_what_a_resource_cannot_be_run_with(resource: Path, options: list[str], found: str) -> None:
    result = CliRunner().invoke(app, ["run", str(resource), *options])
    assert result.exit_code == 2
    assert found in " ".join(result.stderr.replace("│", " ").split())
