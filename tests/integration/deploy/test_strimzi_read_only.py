"""A pod of Strimzi's operator on a read-only root, with a user of its own and a small /tmp, in a mount namespace."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.child import Child
from harness.cluster import KafkaCluster
from harness.consume import consume
from harness.containers.strimzi.operator import Operator
from harness.containers.strimzi.pod import PodContainer
from harness.containers.strimzi.release import RELEASES, Cluster, Resource
from harness.ports import claim_port, release_port
from harness.produce import numbered, produce
from harness.topics import create_topic, topics
from harness.wait import wait_for
from tests.integration.deploy.strimzi_pods import DEADLINE_S, OURS, SOURCE, STORAGE, PodWorker, desired

pytestmark = [
    pytest.mark.scenario,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root for a mount namespace"),
]
NOBODY = 65534
# $1 folder of the container, $2 its variables, $3 bytes of /tmp, $4 the interpreter's folder, $5 a folder above it that
# other users may not enter, or empty, $6 the user.
ENTER = """
set -e
mount --make-rprivate /
if [ -n "$5" ]; then
    mkdir -p /mnt/python && mount --bind "$4" /mnt/python
    mount -t tmpfs -o mode=755 none "$5" && mkdir -p "$4" && mount --bind /mnt/python "$4"
fi
mkdir -p /opt/kafka && mount --bind "$1/opt/kafka" /opt/kafka
mount -t tmpfs -o size="$3",mode=1777 none "$1/tmp"
mount -o remount,ro,bind /
while IFS= read -r line; do variables+=("$line"); done <"$2"
exec setpriv --reuid="$6" --regid=0 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \\
    env -i "${variables[@]}" "$1/opt/kafka/kafka_connect_run.sh"
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="strimzi-pod-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def closed_folder_above(path: Path) -> str:
    """The first folder on the way to `path` that other users may not enter; empty if there is none."""
    closed = (folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001)
    return str(next(closed, ""))


def test_spark_copies_on_a_read_only_root_for_an_own_user_with_256_mb_of_tmp(root: Path) -> None:
    release, port = RELEASES["1.2"], claim_port()
    with KafkaCluster("read-only-root", sasl=False, heap="384m") as cluster:
        more = {SOURCE: {"replication.factor": "-1", "offset-syncs.topic.replication.factor": "-1"}}
        west, east = Cluster("west", cluster.bootstrap, config=STORAGE), Cluster("east", cluster.bootstrap)
        resource = Resource("mm2", west, east, "read-only", more, topics="orders", tasks_max=2)
        lines = {"rest.advertised.host.name": "127.0.0.1"}
        pod = PodContainer(root, release, resource, {}, OURS, port=port, more=lines)
        variables = root / "variables"
        variables.write_text("".join(f"{key}={value}\n" for key, value in pod.environment.items() if "\n" not in value))
        for path in [root, *root.rglob("*")]:
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        python = Path(sys.base_prefix)
        words = [str(root), str(variables), "256m", str(python), closed_folder_above(python), str(NOBODY)]
        pod.process = Child("pod", ["unshare", "-m", "bash", "-c", ENTER, "bash", *words], root / "pod.log")
        topic = create_topic(cluster, "orders", 4)
        for number in range(4):
            produce(cluster, topic, numbered(1000), partition=number)
        worker = PodWorker(pod, Operator(release, f"http://127.0.0.1:{port}"), port)
        try:
            worker.start()
            worker.operator.reconcile(desired(release, resource, pod))

            def copied() -> bool:
                return "east.orders" in topics(cluster) and len(consume(cluster, "east.orders")) == 4000

            wait_for(copied, DEADLINE_S, "the records are copied", every_s=1.0)
            wait_for(lambda: "Spark's tasks copy now" in pod.log, DEADLINE_S, "Spark copies", every_s=1.0)
            assert pod.process.terminate(60)
        finally:
            pod.process.kill()
            release_port(port)
        assert "WARNING user" not in pod.log
        assert "has no name in /etc/passwd" not in pod.log
        assert "MB left" not in pod.log
        assert "Read-only file system" not in pod.log
        assert "Traceback" not in pod.log
