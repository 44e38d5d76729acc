"""The commands of docs/starting.md for spark-submit: what it makes of them, without a cluster that runs it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.containers.kubernetes import Kubernetes
from harness.spark.cluster import spark_home
from twinlog.spark.settings import TaskResources, contradictions

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/starting.md"
PATIENCE_S = 300


def command(having: str) -> list[str]:
    """The words of the only spark-submit command in the document that has this one."""
    text = DOCUMENT.read_text("utf-8").replace("\\\n", " ")
    found = [shlex.split(line.removeprefix("$ ")) for line in text.splitlines() if line.startswith("$ spark-submit")]
    (words,) = (words for words in found if having in words)
    return [str(spark_home() / "bin/spark-submit"), *words[1:]]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Without what this process has for a Spark of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return {**own, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": options, **more}


def parts(printed: str) -> dict[str, list[str]]:
    """What spark-submit prints with --verbose, by the headings."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in printed.splitlines():
        if re.fullmatch(r"[A-Z][a-z ]+:", line):
            lines = found.setdefault(line[:-1], [])
        else:
            lines.append(line.strip())
    return found


def test_spark_submit_reads_the_command_for_yarn_as_it_is_meant(tmp_path: Path) -> None:
    for name in ("twinlog.tar.gz", "mm2.properties", "launcher.py"):
        (tmp_path / name).write_text("")
    words = command("yarn")
    # No resource manager is there: it would be tried again and again after what is looked at.
    printed = ""
    with subprocess.Popen(
        [words[0], "--verbose", *words[1:]],
        cwd=tmp_path,
        env=environment({"HADOOP_CONF_DIR": str(tmp_path)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            printed += line
            if line.startswith("Classpath elements"):
                break
        process.kill()
    found = parts(printed)
    assert found["Main class"] == ["org.apache.spark.deploy.yarn.YarnClusterApplication"], printed
    given = found["Arguments"]
    assert given[given.index("--primary-py-file") + 1].endswith("/launcher.py")
    assert [given[at + 1] for at, word in enumerate(given) if word == "--arg"] == ["run", "mm2.properties"]
    config = dict(re.findall(r"^\(?(spark\.[\w.]+)[=,](.*?)\)?$", "\n".join(found["Spark config"]), re.MULTILINE))
    assert config["spark.yarn.dist.archives"].endswith("/twinlog.tar.gz#twinlog")
    assert config["spark.yarn.dist.files"].endswith("/mm2.properties")
    assert config["spark.pyspark.python"] == "./twinlog/bin/python"
    assert contradictions("yarn", TaskResources(4), config) == []


def test_spark_submit_asks_kubernetes_for_a_driver_that_it_takes(tmp_path: Path) -> None:
    folder = tmp_path / "cluster-mode"
    shutil.copytree(ROOT / "deploy/kubernetes/cluster-mode", folder)
    with Kubernetes("kafka", "nobody", starts=False) as kubernetes:
        words = command("spark.conf")
        words[words.index("--master") + 1] = f"k8s://{kubernetes.url}"
        done = subprocess.run(
            words, cwd=folder, env=environment({}), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        pods = [pod for pod in kubernetes.pods.values() if pod["metadata"]["labels"].get("spark-role") == "driver"]
        others = {one["kind"]: one for one in kubernetes.others}
    assert done.returncode == 0, done.stderr
    (pod,) = pods
    (container,) = pod["spec"]["containers"]
    assert container["args"][0] == "driver", "what the image has on its PATH"
    assert container["args"][-2:] == ["run", "/etc/twinlog/mirror/mm2.properties"]
    assert "/etc/twinlog/mirror" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert pod["spec"]["serviceAccountName"] == "twinlog"
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "driver"
    # A second of computing, which each process that collects this file would spend.
    from kubernetes_validate import latest_version, validate

    newest = latest_version().rpartition(".")[0]
    for one in (pod, others["ConfigMap"], others["Service"]):
        validate({key: value for key, value in one.items() if key != "status"}, newest, strict=True)
    # The policy's ports are those that Spark asks a service for.
    assert {port["port"] for port in others["Service"]["spec"]["ports"]} >= {7078, 7080}
