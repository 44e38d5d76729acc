"""Services of a compose file as processes: what they find, in what order they start, and that they end."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness.child import runs
from harness.containers import compose
from harness.containers.compose import ComposeStack
from harness.wait import wait_for

FILE = """
services:
  near:
    image: here
    command: ["/bin/sh", "-c", "/bin/sleep 60 & sleep 9; touch /opt/kafka/ready; cat /opt/kafka/a; tool $$NAME; wait"]
    environment: {NAME: "far:9092"}
    volumes: ["./conf:/opt/kafka:ro"]
    healthcheck: {test: "test -e /opt/kafka/ready"}
  far:
    image: here
    command: ["/bin/sh", "-c", "echo near:9092 localhost/far near-by:1; /bin/sleep 60"]
    healthcheck: {test: "true"}
    depends_on: {near: {condition: service_healthy}}
  elsewhere:
    image: unknown
    healthcheck: {test: "false"}
"""


def test_services_find_each_other_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = {"here": {"/bin/tool": ["echo", "tool"]}}
    monkeypatch.setattr(compose, "programs", lambda service: tools.get(service.image))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/a").write_text("at 0.0.0.0:9092, far:1, nearest:1, x.far:1 and /opt/kafka/d a minute\n")
    (tmp_path / ".env").touch()
    file = tmp_path / "docker-compose.yaml"
    file.write_text(FILE)
    with ComposeStack(file, tmp_path / "disks", lambda text: text.replace("minute", "second")) as stack:
        near, far = stack.addresses["near"], stack.addresses["far"]
        data = tmp_path / "disks/near/opt/kafka/d"
        printed = [f"at {near}:9092, {far}:1, nearest:1, x.far:1 and {data} a second", f"tool {far}:9092"]
        wait_for(lambda: stack.log("near").splitlines() == printed, 30, "the first has printed")
        wait_for(lambda: stack.log("far") == f"{near}:9092 localhost/far near-by:1\n", 30, "the second has printed")
        assert "elsewhere" not in stack.running
        assert stack.run("near", ["cat"], "given").stdout == "given"
        (sleeping,) = psutil.Process(stack.running["near"].pid).children()
        again = stack.child("near", ["/bin/sleep", "60"], "again")
        again.start()
    assert not runs(sleeping)
    assert not any(child.alive for child in (*stack.running.values(), again))
