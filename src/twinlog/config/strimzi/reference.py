"""Writes `docs/strimzi.md` from the table of fields: `python -m twinlog.config.strimzi.reference > docs/strimzi.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from twinlog.config.strimzi.fields import FIELDS, FORBIDDEN, OLD, Field

_OPERATOR = """\
# Strimzi's resource

<!-- Generated from the table of fields: python -m twinlog.config.strimzi.reference > docs/strimzi.md -->

twinlog runs a `KafkaMirrorMaker2` in two ways: Strimzi's cluster operator starts twinlog's image, or twinlog reads
the resource itself and runs it without the operator.

## One line under Strimzi's operator

```yaml
spec:
  image: registry.example/kafka/twinlog:0.1.0
```

The operator replaces the pods of its MirrorMaker 2 with pods of this image. Group, topics, connectors and positions
stay, so copying continues at the next record. The operator does its work as before over the REST API: status,
`state`, `autoRestart`, annotations for restarts and offsets. Removing the line brings MirrorMaker 2 back.

First compare `resources` of the resource with the [limits of the chart's pods](kubernetes.md); 2 GB of memory is the
least. Then:

```console
$ make image ENGINE=podman
$ podman push twinlog:0.1.0 registry.example/kafka/twinlog:0.1.0
$ kubectl patch kafkamirrormaker2 NAME --type merge \\
    -p '{"spec": {"image": "registry.example/kafka/twinlog:0.1.0"}}'
$ kubectl logs NAME-mirrormaker2-0
$ kubectl get kafkamirrormaker2 NAME -o jsonpath='{.status.connectors}'
```

The log begins with lines of `strimzi pod`, each with a setting that has another effect here. The last command shows the
connectors as `RUNNING`.

With several replicas, the operator replaces the pods in turn. A new pod waits until the last pod of MirrorMaker 2 has
left the group, logs the wait, and counts as ready meanwhile; then the new pods share the connectors. On the way back
a worker of Kafka's ends while pods of twinlog are in the group. So with several replicas set `replicas: 0` first,
wait until the pods are gone, remove the line, and set `replicas` again.
"""

_OPERATED = (
    (
        "`tls`, `authentication`",
        (
            "count. Up to Strimzi 1.0 the image makes PKCS12 stores of the mounted certificates, as Strimzi's image "
            "does; since 1.1 the worker reads certificates and passwords from Secrets through the API server, with "
            "the Role that the operator makes"
        ),
    ),
    (
        "`config` of the target",
        "counts, also keys of twinlog",
    ),
    (
        "`mirrors`",
        "count; the operator creates and changes the connectors",
    ),
    (
        "`rack`",
        "counts",
    ),
    (
        "`metricsConfig`",
        (
            "port 9404. With `jmxPrometheusExporter` the metrics have the names of the rules in Strimzi's examples, "
            "and other rules are ignored with a line; with `strimziMetricsReporter` they have the names of that "
            "reporter, and the allowlist is ignored"
        ),
    ),
    (
        "`logging`",
        "levels count, and a change of the levels counts within 30 seconds; appenders are ignored",
    ),
    (
        "`livenessProbe`, `readinessProbe`",
        "count; both ask `/health`",
    ),
    (
        "`jvmOptions`, `jmxOptions`, `tracing`",
        (
            "ignored with a line; Spark's driver has 1 GB. `SPARK_CONF_DIR` in `template.connectContainer.env` names "
            "a folder with a `spark-defaults.conf`"
        ),
    ),
    (
        "`version`",
        "for the operator alone",
    ),
    (
        "`template.pod.tmpDirSizeLimit`",
        (
            "Strimzi's `/tmp` has 5 MB, so Spark's files are in `/var/tmp` of the container. With "
            "`readOnlyRootFilesystem: true` write `256Mi` here"
        ),
    ),
)
"""Fields of the resource, each with its effect in a pod that Strimzi's operator starts."""

_RESOURCE = """\
A pod runs as user 1000 without capabilities. twinlog copies in the pod itself, with Spark's `local` master; executors
in other pods need the [chart](kubernetes.md).

This was built after Strimzi's public sources at 0.51.0, 1.0.0 and 1.2.0. **No real Kubernetes cluster was used.** The
tests run the image's script as a process with the files, variables and Secrets of each release, with an API server that
serves Secrets, and replay the operator's requests. A whole pod copied with real brokers for 0.51 and 1.2. Still
untested with real workers: the replacement of several replicas in turn, and a read-only root.

## Without the operator

twinlog reads the resource, `v1beta2` and `v1`, as it is, on Kubernetes or anywhere else:

```console
$ twinlog check mirror.yaml --secrets /mnt/secrets
$ twinlog run mirror.yaml --secrets /mnt/secrets
$ twinlog plan mirror.yaml --secrets /mnt/secrets
```

`run` starts a worker of Kafka Connect with the group, the topics, the connectors and the names that Strimzi's operator
gives them, so that it continues from the positions of Strimzi's own MirrorMaker 2, which has to be stopped before.
Several processes with the same file share the connectors. The REST API is at `http://127.0.0.1:8083`;
`--listen http://:8083` opens it to other machines, which several processes on several machines need, and the probes of
a pod. Exit codes are those of `run` (see [running](running.md#start-and-stop)), and 3 also if its address is taken. The
API asks for a login with `--users FILE`, or the variable `TWINLOG_USERS_FILE`: lines `user=password`, plain or as
`htpasswd -B` writes it. A resource runs until it is stopped, and as a whole: it lacks `--until` and `--clusters`,
because its connectors belong to a group of workers, and a single process may neither end them nor leave them out. A
properties file that `twinlog convert` makes of it has both, and positions of its own.

## Secrets and config maps

A value that the resource names by Secret and key is looked for in this order:

1. in a document `kind: Secret` or `kind: ConfigMap` of the same file;
2. in the file `DIR/<name>/<key>`, as Kubernetes mounts them: `--secrets DIR`, or the variable `TWINLOG_SECRETS_DIR`;
3. in the variable `TWINLOG_SECRET_<NAME>_<KEY>`, in capitals, with `_` for every other character.

So is the value of `${secrets:NAMESPACE/NAME:KEY}`, if `config.providers` of the target names
`io.strimzi.kafka.KubernetesSecretConfigProvider` or `io.strimzi.kafka.KubernetesConfigMapConfigProvider`.

The worker's topics and its REST API have references instead of values. When a file of a Secret changes, the connectors
that use it restart within ten seconds; for a new login of the worker itself the process has to be restarted.

## What a running process does when the file changes

The file is read every second, also behind links as Kubernetes swaps them. The process that leads the group acts:

| in the file | effect |
|---|---|
| `state: paused`, `pause: true` | copying pauses, positions and tasks are kept; `running` continues from them |
| `state: stopped` | the same, and tasks end; now `twinlog connectors offsets` can alter positions |
| `replicas: 0` | every connector is paused |
| another `config`, pattern, `tasksMax` | the connector continues with it |
| a connector or a mirror that comes or goes | it is created, or deleted; positions stay, by its name |
| another alias of a cluster | its connectors have other names: they copy everything again, [see below](#offsets) |
| annotation `strimzi.io/restart-connector` | `<connector>[:includeTasks,onlyFailed]` is restarted, once a value |
| annotation `strimzi.io/restart-connector-task` | `<connector>:<n>` is restarted, once a value |
| annotation `strimzi.io/connector-offsets` | stored [offsets](#offsets) are listed, altered or reset |
| annotation `strimzi.io/pause-reconciliation: "true"` | all changes wait until it goes |
| `logging` of type inline | levels of loggers, by the names that Kafka gives them |
| `autoRestart` | failed parts are restarted after 0, 2, 6, 12, 20 … minutes, 60 at most, until `maxRestarts` |
| another target, login or setting of the worker | the log asks for a restart of the process |
| something wrong | the whole change waits; the log names file, line and path |
| a Secret is named that is still missing | the same, until it is there |
| it is away, or empty | the last content stays in effect |

Two resources with the same target need each a group and topics of its own, as with Strimzi: `group.id` and the three
topics are the same for all in v1beta2 unless they are set. With Strimzi each then deletes the connectors of the other.
Here a connector has the name of its resource (`twinlog.resource`): a resource that finds connectors of another resource
in its group waits and logs the reason.

### Offsets

With `listOffsets.toConfigMap.name: NAME` at a connector, the annotations

```yaml
strimzi.io/connector-offsets: list
strimzi.io/mirrormaker-connector: east->west.MirrorSourceConnector
```

write its stored offsets into `DIR/NAME/east--west.MirrorSourceConnector.json`, in the form of Connect's REST API. `DIR`
is that of `--offsets`, or the variable `TWINLOG_OFFSETS_DIR`; else that of `--secrets`, or of the file. Every process
with this file writes its own. `alter` stores the offsets in the same key of `alterOffsets.fromConfigMap.name`, which is
looked for as any ConfigMap is, and at last in `DIR`; `reset` deletes everything stored. For both the connector has to
be stopped: until it is, and as long as something else is wrong, the log reports it and it is tried again. Annotations
from before the start of the process are ignored, and so are annotations that are gone.

With the identity policy another alias would copy everything into the same topics a second time. Therefore the old
source connector stays in the place of the new, unless the new connector begins as `stopped`: list the offsets of the
old connector before, write the new alias as `cluster`, alter the offsets of the new connector, and have it run.

An operator names a cluster by its alias alone: `source.cluster.alias` and `target.cluster.alias` of a file, also [empty
ones](configuration.md#names-that-are-kept), lack a place in a resource, and `twinlog convert` lists them.

A connector of the group whose name differs from all names of resources stays as it is, and is named once.

## From one form to another

```console
$ twinlog convert mm2.properties --format strimzi --output-dir mirror
$ twinlog convert mirror.yaml --format properties --output-dir mm2
$ twinlog convert worker.properties source.json check.json --format strimzi --api-version v1beta2 --output-dir mirror
$ twinlog convert old.yaml --format strimzi --output-dir new
```

`convert` writes a properties file, connectors with the file of their worker, or a resource, from any of them; of a
resource also the other version, with all that it holds. Secrets of the input become files `DIR/secrets/<name>/<key>`
that only you may read, and references to them; the output leaves them out. Settings that lack a place in the form asked
for are named with file, line and key. Existing files stay as they are.

| exit code | of `convert` |
|---|---|
| 0 | everything was converted |
| 1 | a part was impossible to convert; the rest was written |
| 2 | the input or the command line is wrong, or a file exists; DIR is as before |

Positions go by the name of the source connector: `MirrorSourceConnector` in a dedicated MirrorMaker 2, and
`A->B.MirrorSourceConnector` in a resource. `convert` names the flows that would therefore begin again.

## Fields

An unknown field, a wrong value or a dangling reference is an error with file, line and path. Fields that are ignored
here are named in a single warning with their lines; so are settings in the `config` of a cluster that Strimzi drops:
"""


_ALIKE = {
    "clusters": "target",
    "mirrors[].source": "target",
    "mirrors[].checkpointConnector": "mirrors[].sourceConnector",
    "mirrors[].heartbeatConnector": "mirrors[].sourceConnector",
}
"""Fields with the same fields below them as another field."""

_SECRETS = (
    *("trustedCertificates", "tlsTrustedCertificates", "certificateAndKey", "passwordSecret"),
    *("accessToken", "clientAssertion", "clientSecret", "refreshToken"),
)


def render() -> str:
    """The whole page."""
    dropped = ", ".join(f"`{name}{'*' if name.endswith('.') else ''}`" for name in FORBIDDEN)
    operated = "".join(f"| {field} | {effect} |\n" for field, effect in _OPERATED)
    first = f"{_OPERATOR}\n| in the resource | in a pod of twinlog's image |\n|---|---|\n{operated}\n"
    head = f"{first}{_RESOURCE}{dropped}.\n\n| field | only in | here |\n|---|---|---|\n"
    return head + "".join(_rows())


def _rows() -> Iterator[str]:
    skipped: tuple[str, ...] = ()
    for path, field in FIELDS.items():
        if path.startswith(skipped) or path in {"spec", "kind", "apiVersion"} or path.endswith("[]"):
            continue
        alike = _ALIKE.get(path.removeprefix("spec."))
        if field.named is not None or field.free or alike is not None or path.endswith(_SECRETS):
            # The table leaves out the fields below it.
            skipped = (*skipped, f"{path}.", f"{path}[")
        elif field.type in {"map", "list"}:
            continue
        yield f"| `{path.removeprefix('spec.')}` | {_versions(field)} | {_effect(path, field, alike)} |\n"


def _versions(field: Field) -> str:
    if len(field.versions) > 1:
        return ""
    return "v1beta2" if field.versions == OLD else "v1"


def _effect(path: str, field: Field, alike: str | None) -> str:
    if alike is not None:
        return f"counts, with all fields of `{alike}`"
    if field.named is not None:
        return f"named: {field.named}"
    return {"metadata": "counts: annotations, see above", "status": "ignored"}.get(path, "counts")


if __name__ == "__main__":
    sys.stdout.write(render())
