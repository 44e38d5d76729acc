"""Writes `docs/strimzi.md` from the table of fields: `python -m twinlog.config.strimzi.reference > docs/strimzi.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from twinlog.config.strimzi.fields import FIELDS, FORBIDDEN, OLD, Field

_OPERATOR = """\
# Strimzi's resource

<!-- Generated from the table of fields: python -m twinlog.config.strimzi.reference > docs/strimzi.md -->

Run your `KafkaMirrorMaker2` unchanged, [under Strimzi's operator](#under-strimzis-operator), in [the Helm
chart](kubernetes.md), or [anywhere else](#without-the-operator). [From Strimzi's operator to
twinlog](guides/from-strimzi.md) replaces MirrorMaker 2 step by step.

## Under Strimzi's operator

```yaml
spec:
  image: registry.example/kafka/twinlog:0.1.0
```

The operator replaces the pods of MirrorMaker 2 with pods of this image. Copying continues at the next record; status,
`state`, `autoRestart` and annotations work as before. Remove the line to return to MirrorMaker 2. You need operator
0.46 or newer, and at least 2 GB of memory for each pod (`resources`):

```console
$ make image ENGINE=podman
$ podman push twinlog:0.1.0 registry.example/kafka/twinlog:0.1.0
$ kubectl patch kafkamirrormaker2 NAME --type merge \\
    -p '{"spec": {"image": "registry.example/kafka/twinlog:0.1.0"}}'
$ kubectl logs NAME-mirrormaker2-0
$ kubectl get kafkamirrormaker2 NAME -o jsonpath='{.status.connectors}'
```

The log begins with `strimzi pod`: a line for each setting with another effect. In the pod, commands [ask the
worker](connect.md#ask-a-running-worker) with its file:

```console
$ kubectl exec NAME-mirrormaker2-0 -- twinlog status /tmp/strimzi-connect.properties --url http://localhost:8083
```

**With several replicas**, new pods wait until the last pod of MirrorMaker 2 has left the group. On the way back, set
`replicas: 0`, wait until the pods are gone, remove the line, and set `replicas` again.
"""

_OPERATED = (
    (
        "`tls`, `authentication`",
        "work. Since Strimzi 1.1, the worker reads Secrets through the API server, with the operator's Role",
    ),
    ("`config` of the target, with keys of twinlog too, `mirrors`, `rack`", "work"),
    (
        "`metricsConfig`",
        (
            "port 9404. `jmxPrometheusExporter`: the names of Strimzi's example rules; other rules are ignored. "
            "`strimziMetricsReporter`: the names of that reporter; the allowlist is ignored"
        ),
    ),
    ("`logging`", "levels work, and change within 30 seconds; appenders are ignored"),
    ("`livenessProbe`, `readinessProbe`", "work; both ask `/health`"),
    (
        "`jvmOptions`, `jmxOptions`, `tracing`",
        (
            "ignored. Spark's driver has 1 GB. For more, `SPARK_CONF_DIR` in `template.connectContainer.env` names a "
            "folder with `spark-defaults.conf`"
        ),
    ),
    (
        "`template.pod.tmpDirSizeLimit`",
        (
            "with `readOnlyRootFilesystem: true`, write `256Mi`. Otherwise Spark's files are in `/var/tmp`, because "
            "Strimzi's `/tmp` has 5 MB"
        ),
    ),
)
"""Fields of the resource, each with its effect in a pod that Strimzi's operator starts."""

_RESOURCE = """\
A pod runs as user 1000, on OpenShift as the user that OpenShift chooses, and copies with Spark's `local` master. For
executors in other pods, use the [chart](kubernetes.md). Untested with real workers are the replacement of several
replicas in turn, and a read-only root ([tested releases](limits.md#versions)).

## Without the operator

Stop Strimzi's MirrorMaker 2 first. Then run the resource, `v1beta2` or `v1`, on any host:

```console
$ twinlog check mirror.yaml --secrets /mnt/secrets
$ twinlog plan mirror.yaml --secrets /mnt/secrets
$ twinlog run mirror.yaml --secrets /mnt/secrets
```

`run` starts a Connect worker with Strimzi's names of group, topics and connectors, and continues at their positions.
Several processes with the same file share the connectors. On several hosts, and for probes, open the REST API by
`--listen http://:8083`, and protect it by `--users FILE`. A resource lacks `--until-caught-up` and `--clusters`:
[convert](#convert) it to a properties file for these options.

## Secrets and config maps

twinlog looks for a Secret or ConfigMap in this order:

1. a document `kind: Secret` or `kind: ConfigMap` of the same file;
2. the file `DIR/<name>/<key>`, as Kubernetes mounts it: `--secrets DIR` or `TWINLOG_SECRETS_DIR`;
3. the variable `TWINLOG_SECRET_<NAME>_<KEY>`, in capitals, with `_` for every other character.

The same order applies to `${secrets:NAMESPACE/NAME:KEY}` of [Strimzi's providers](security.md#secrets). After a change
of a Secret's file, its connectors restart within ten seconds. For a new login of the worker itself, restart the
process.

## Changes while twinlog runs

twinlog reads the file every second:

| in the file | effect |
|---|---|
| `state: paused`, `pause: true` | copying pauses; positions and tasks stay. `running` continues |
| `state: stopped` | copying pauses and tasks end. You can now alter positions with `twinlog connectors offsets` |
| `replicas: 0` | pauses every connector |
| a new or removed connector or mirror | is created or deleted; positions stay, by its name |
| another alias of a cluster | its connectors have new names, and [copy everything again](#offsets) |
| annotations `strimzi.io/restart-connector`, `strimzi.io/restart-connector-task` | \
restart `<connector>[:includeTasks,onlyFailed]`, `<connector>:<n>`, once for each value |
| annotation `strimzi.io/connector-offsets` | lists, alters or resets [offsets](#offsets) |
| annotation `strimzi.io/pause-reconciliation: "true"` | all changes wait |
| `logging` of type inline | sets levels of loggers, by Kafka's names |
| `autoRestart` | restarts failed parts after 0, 2, 6, 12, 20 … minutes, 60 at most, until `maxRestarts` |
| another target, login or setting of the worker | the log asks you to restart the process |
| a mistake, a missing Secret, a missing or empty file | the whole change waits; the log names the problem |

**Two resources with the same target** need different `group.id` and topics; in `v1beta2`, set them. Otherwise a
resource waits, and logs the reason.

### Offsets

Two annotations name request and connector:

```yaml
strimzi.io/connector-offsets: list
strimzi.io/mirrormaker-connector: east->west.MirrorSourceConnector
```

- `list`: each process writes `DIR/NAME/east--west.MirrorSourceConnector.json`, in the form of Connect's REST API. NAME
  is `listOffsets.toConfigMap.name`; DIR is `--offsets`, `TWINLOG_OFFSETS_DIR`, `--secrets`, or the folder of the file.
- `alter` stores the offsets of the same key in the ConfigMap `alterOffsets.fromConfigMap.name`, which may be in DIR.
- `reset` deletes all stored offsets.

Set `state: stopped` for `alter` and `reset`. twinlog ignores annotations from before its start.

**Another alias with kept topic names** (identity policy) would copy everything into the same topics again. The old
source connector therefore stays, unless the new connector begins as `stopped`:

1. List the offsets of the old connector, and write the new alias as their `cluster`.
2. Change the alias in the resource, with `state: stopped`.
3. Alter the offsets of the new connector, and set `state: running`.

A resource cannot hold `source.cluster.alias` and `target.cluster.alias`, also
[empty](configuration.md#names-that-are-kept): `twinlog convert` lists these lines.

## Convert

```console
$ twinlog convert mm2.properties -o strimzi --output-dir mirror
$ twinlog convert mirror.yaml -o properties --output-dir mm2
$ twinlog convert worker.properties source.json check.json -o strimzi --api-version v1beta2 --output-dir mirror
```

[`convert`](commands.md#twinlog-convert) turns each form of a file into each other form, and a resource into its other
version. Secrets become files `DIR/secrets/<name>/<key>`, and `pattern: "*.crt"` a reference to each matching file of
`--secrets DIR`. Settings without a place in the new form are listed, with exit code 1.

**Positions go by the name of the source connector**: `MirrorSourceConnector` in a dedicated MirrorMaker 2, and
`A->B.MirrorSourceConnector` in a resource. `convert` names the flows that would therefore begin again.

## Fields

An unknown field, a wrong value or a reference to a missing object is an error. A single warning lists all ignored
fields, and these settings in the `config` of a cluster, which Strimzi drops too:
"""

_ALIKE = {"clusters", "mirrors[].source", "mirrors[].checkpointConnector", "mirrors[].heartbeatConnector"}
"""Fields with the same fields below them as `target` or `mirrors[].sourceConnector`."""

_WHOLE = {"apiVersion", "kind", "metadata", "status", "spec"}
_SECRETS = (
    *("trustedCertificates", "tlsTrustedCertificates", "certificateAndKey", "passwordSecret"),
    *("accessToken", "clientAssertion", "clientSecret", "refreshToken"),
)


def render() -> str:
    """The whole page."""
    dropped = ", ".join(f"`{name}{'*' if name.endswith('.') else ''}`" for name in FORBIDDEN)
    operated = "".join(f"| {field} | {effect} |\n" for field, effect in _OPERATED)
    reasons: dict[str, list[str]] = {"the operator writes it": ["`status`"]}
    for path, field in _fields():
        if field.named:
            only = f" ({_only(field)})" if _only(field) else ""
            reasons.setdefault(field.named, []).append(f"`{path}`{only}")
    ignored = "".join(f"| {', '.join(names)} | {reason} |\n" for reason, names in reasons.items())
    return (
        f"{_OPERATOR}\n| in the resource | in a pod of twinlog's image |\n|---|---|\n{operated}\n"
        f"{_RESOURCE}{dropped}.\n\n"
        f"| ignored fields | reason |\n|---|---|\n{ignored}\n"
        "All other fields of both versions work.\n"
    )


def _fields() -> Iterator[tuple[str, Field]]:
    """Fields without the fields that the page describes together."""
    skipped: tuple[str, ...] = ()
    for path, field in FIELDS.items():
        if path.startswith(skipped) or path in _WHOLE or path.endswith("[]"):
            continue
        name = path.removeprefix("spec.")
        if field.named is not None or field.free or name in _ALIKE or path.endswith(_SECRETS):
            skipped = (*skipped, f"{path}.", f"{path}[")
        elif field.type in {"map", "list"}:
            continue
        yield name, field


def _only(field: Field) -> str:
    if len(field.versions) > 1:
        return ""
    return "v1beta2" if field.versions == OLD else "v1"


if __name__ == "__main__":
    sys.stdout.write(render())
