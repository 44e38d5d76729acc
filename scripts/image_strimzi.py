#!/usr/bin/env python
"""Starts the worker in a pod of Strimzi's cluster operator, in the place of the scripts of Strimzi's Kafka image.

The operator runs /opt/kafka/kafka_mirror_maker_2_run.sh up to version 1.0, and /opt/kafka/kafka_connect_run.sh since
1.1; the image has this file under both names. It does the same work as Strimzi's scripts: it empties /tmp, makes PKCS12
stores of the mounted certificates (up to 1.0), finds the name of the pod, writes /tmp/strimzi-connect.properties, and
becomes connect-distributed.sh. It adds the port of the metrics, and a folder for the files of Spark, because Strimzi's
/tmp has 5 MB. Each variable for Java that has no effect here is named in a line.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import javaproperties
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

ROOT = "TWINLOG_POD_ROOT"
"""The variable with a folder in front of all paths here; tests set it."""

STORE_PASSWORD = "MIRRORMAKER_2_CERTS_STORE_PASSWORD"
HEALTH = "twinlog.healthy.before.group"
METRICS = "twinlog.metrics.listeners"
METRICS_ADDRESS = "http://:9404"
REPORTER = "prometheus.metrics.reporter.listener"
OF_REPORTER = re.compile(r"(?:(?:admin|consumer|producer)\.)?prometheus\.metrics\.reporter\.")
RACK = "consumer.client.rack"
RACK_REFERENCE = re.compile(r"\$\{(?:strimzienv|strimzidir:([^:}]+)):([^:}]+)\}")
LEAST_ROOM = 128 * 1024 * 1024
"""Bytes that Spark's native libraries, and its files of a start, need."""

HIDDEN = re.compile(r"((?:sasl\.jaas\.config|password|ssl\.keystore\.key)\s*[=:]).*")
IGNORED = {
    "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "a heap for Java; Spark's driver has 1 GB here",
    "STRIMZI_JAVA_SYSTEM_PROPERTIES": "properties of a Java process",
    "STRIMZI_JMX_ENABLED": "JMX; the metrics are at port 9404 with spec.metricsConfig, and at /metrics of port 8083",
    "STRIMZI_TRACING": "tracing, which is missing here",
    "FIPS_MODE": "a mode of Java",
}
"""Variables of the operator that have no effect here, each with its meaning."""


def say(text: str) -> None:
    """Print a line; the pod's log is its only reader."""
    print(f"strimzi pod: {text}", flush=True)


@dataclass(frozen=True)
class Pod:
    """The folders and the variables of the container."""

    kafka: Path
    tmp: Path
    scratch: Path
    environment: Mapping[str, str]

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Pod:
        """The pod as the operator describes it."""
        root = Path(environment.get(ROOT) or "/")
        return cls(root / "opt/kafka", root / "tmp", root / "var/tmp", environment)

    def named(self, variable: str) -> dict[str, str]:
        """The lines ALIAS=VALUE of a variable, by alias."""
        lines = self.environment.get(variable, "").splitlines()
        return {alias: value for alias, _, value in (line.partition("=") for line in lines) if alias}


def empty_folder(folder: Path) -> None:
    """Remove the remains of an earlier container; a file of somebody else stays."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()


def certificates(folder: Path, listed: str) -> Iterator[tuple[str, x509.Certificate]]:
    """The certificates of SECRET/FILE;SECRET/PATTERN below `folder`, each with its own name."""
    for pattern in filter(None, listed.split(";")):
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if not found:
            say(f"WARNING {folder / pattern} matches no file, so its cluster is not trusted: tls.trustedCertificates")
        for path in found:
            for number, one in enumerate(x509.load_pem_x509_certificates(path.read_bytes())):
                yield f"{path}-{number}", one


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only this user may read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


def write_trust_store(path: Path, folder: Path, listed: str, password: bytes) -> None:
    """Write a trust store; without any certificate the file is left out, as by Strimzi's script."""
    trusted = [pkcs12.PKCS12Certificate(one, name.encode()) for name, one in certificates(folder, listed)]
    if trusted:
        write_secret(path, pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password)))
        say(f"wrote {path} with {len(trusted)} certificates")


def write_key_store(path: Path, certificate: Path, key: Path, password: bytes) -> None:
    """Write a key store with a key, its certificate, and the certificates above it."""
    own, *above = x509.load_pem_x509_certificates(certificate.read_bytes())
    secret = load_pem_private_key(key.read_bytes(), None)
    if not isinstance(secret, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        sys.exit(f"{key}: a key of another kind than RSA, EC and Ed25519; see authentication.certificateAndKey")
    locked = BestAvailableEncryption(password)
    content = pkcs12.serialize_key_and_certificates(certificate.name.encode(), secret, own, above, locked)
    write_secret(path, content)
    say(f"wrote {path}")


def write_stores(pod: Pod, password: str) -> None:
    """Write the stores of all clusters below /tmp/kafka/clusters, under the names that the connectors use."""
    trusted = pod.named("KAFKA_MIRRORMAKER_2_TRUSTED_CERTS_CLUSTERS")
    shown = pod.named("KAFKA_MIRRORMAKER_2_TLS_AUTH_CERTS_CLUSTERS")
    keys = pod.named("KAFKA_MIRRORMAKER_2_TLS_AUTH_KEYS_CLUSTERS")
    tokens = pod.named("KAFKA_MIRRORMAKER_2_OAUTH_TRUSTED_CERTS_CLUSTERS")
    made, mounted = pod.tmp / "kafka/clusters", pod.kafka / "mm2-certs"
    made.mkdir(parents=True, exist_ok=True)
    for alias in filter(None, pod.environment.get("KAFKA_MIRRORMAKER_2_CLUSTERS", "").split(";")):
        own = password.encode()
        write_trust_store(made / f"{alias}.truststore.p12", mounted / alias, trusted.get(alias, ""), own)
        if alias in shown and alias in keys:
            files = mounted / alias / shown[alias], mounted / alias / keys[alias]
            write_key_store(made / f"{alias}.keystore.p12", *files, own)
        folder = pod.kafka / "mm2-oauth-certs" / alias
        write_trust_store(made / f"{alias}-oauth.truststore.p12", folder, tokens.get(alias, ""), own)


def pod_name() -> str:
    """POD.SERVICE.NAMESPACE.svc, by which the other workers reach this worker."""
    host = socket.gethostname()
    try:
        full = socket.getaddrinfo(host, None, flags=socket.AI_CANONNAME)[0][3] or host
    except OSError as error:
        say(f"WARNING the name {host} has no address ({error.strerror}); other workers cannot reach this worker")
        full = host
    return ".".join(full.split(".")[:4])


def worker_properties(pod: Pod, text: str) -> str:
    """The operator's file for the worker: the rack as a value, port 9404 if spec.metricsConfig asks for metrics, and no
    settings of Strimzi's Metrics Reporter; and a worker that counts as ready before it is in its group."""
    values = javaproperties.loads(text)
    rack = rack_lines(pod, values)
    # With several replicas the operator replaces a pod only once the pod before it is ready, and the first pod with
    # twinlog waits until the last pod of Kafka's workers has left the group.
    waiting = [] if HEALTH in values else [f"{HEALTH}=true"]
    added = [*waiting, *rack, *metrics_lines(pod, values)]
    kept = [
        line for line in text.splitlines() if not OF_REPORTER.match(line) and not (rack and line.startswith(f"{RACK}="))
    ]
    return "\n".join([*kept, "", "# Added by the image of twinlog", *added, ""])


def rack_lines(pod: Pod, values: Mapping[str, str]) -> list[str]:
    """The rack of the pod in place of its reference: connectors take it from this file, by a reference of their own."""
    written = values.get(RACK, "")
    found = RACK_REFERENCE.fullmatch(written)
    if found is None:
        return []
    folder, name = found.groups()
    try:
        rack = pod.environment[name] if folder is None else Path(folder, name).read_text("utf-8")
    except (KeyError, OSError):
        rack = ""
    if not rack.strip():
        say(f"WARNING {RACK} is empty: {written} leads nowhere; each replica counts as equally near")
    return [f"{RACK}={rack.strip()}"]


def metrics_lines(pod: Pod, values: Mapping[str, str]) -> list[str]:
    """The address and the names of the metrics if spec.metricsConfig asks for any, unless the resource has its own."""
    reporter = values.get(f"{REPORTER}.enable", "").strip() == "true"
    if METRICS in values or not (reporter or pod.environment.get("KAFKA_CONNECT_JMX_EXPORTER_ENABLED") == "true"):
        return []
    address = values.get(REPORTER, METRICS_ADDRESS).strip()
    names = "Strimzi's Metrics Reporter" if reporter else "the rules in Strimzi's examples for the JMX exporter"
    say(f"the metrics are at {address}, under the names of {names}")
    rules = pod.kafka / "custom-config/metrics-config.json"
    if rules.is_file():
        say(f"{rules}: ignored; drop or rename metrics in the scraper (metric_relabel_configs)")
    return [f"{METRICS}={address}", *(["twinlog.metrics.names=reporter"] if reporter else [])]


def scratch_folder(pod: Pod) -> Path:
    """The folder for Spark's files: $TMPDIR, else /var/tmp, else Strimzi's /tmp if the root is read-only."""
    given = pod.environment.get("TMPDIR")
    found = next((one for one in (pod.scratch, pod.tmp) if os.access(one, os.W_OK | os.X_OK)), pod.tmp)
    folder = Path(given) if given else found
    room = shutil.disk_usage(folder).free
    if room < LEAST_ROOM:
        say(
            f"WARNING {folder} has {room // 1024**2} MB left, and Spark needs {LEAST_ROOM // 1024**2} MB: write "
            "tmpDirSizeLimit: 256Mi at spec.template.pod, or have a writable root (readOnlyRootFilesystem: false)"
        )
    return folder


def name_user(passwd: Path = Path("/etc/passwd")) -> None:
    """Give the user of this process a name, as Spark asks for it: OpenShift chooses a number without a name."""
    number = os.getuid()
    try:
        pwd.getpwuid(number)
        return
    except KeyError:
        pass
    try:
        with passwd.open("a", encoding="ascii") as file:
            file.write(f"twinlog:x:{number}:0:twinlog:/tmp:/usr/sbin/nologin\n")
    except OSError as error:
        say(
            f"WARNING user {number} has no name in {passwd} ({error.strerror}), and Spark needs it: set runAsUser: 1000"
        )


def environment_of(pod: Pod, password: str, scratch: Path) -> dict[str, str]:
    """The variables of the worker."""
    found = {
        **pod.environment,
        "ADVERTISED_HOSTNAME": pod_name(),
        STORE_PASSWORD: password,
        "TMPDIR": str(scratch),
    }
    if not os.access(found.get("HOME", "/"), os.W_OK):
        found["HOME"] = str(scratch)
    levels = pod.kafka / "custom-config/log4j2.properties"
    if not found.get("KAFKA_LOG4J_OPTS") and levels.is_file():
        found["KAFKA_LOG4J_OPTS"] = f"-Dlog4j2.configurationFile={levels}"
    for name, meaning in IGNORED.items():
        if found.get(name, "") not in {"", "false"}:
            say(f"{name} is ignored: {meaning}")
    return found


def main() -> None:
    """Prepare the pod, and become the worker."""
    pod = Pod.of(os.environ)
    empty_folder(pod.tmp)
    name_user()
    password = secrets.token_urlsafe(24)
    write_stores(pod, password)
    file = pod.tmp / "strimzi-connect.properties"
    written = pod.kafka / "custom-config/kafka-connect.properties"
    try:
        text = worker_properties(pod, written.read_text("utf-8"))
    except OSError as error:
        sys.exit(f"{written}: {error.strerror}; Strimzi's cluster operator mounts it, and starts this file")
    write_secret(file, text.encode())
    say(f"starting with {file}:")
    print(HIDDEN.sub(r"\1[hidden]", text), flush=True)
    started = [str(pod.kafka / "bin/connect-distributed.sh"), str(file)]
    tini = shutil.which("tini")
    command = started if tini is None else [tini, "-w", "-e", "143", "--", *started]
    os.execve(command[0], command, environment_of(pod, password, scratch_folder(pod)))


if __name__ == "__main__":
    main()
