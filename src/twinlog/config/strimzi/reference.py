"""Writes `docs/strimzi.md` from the table of fields: `python -m twinlog.config.strimzi.reference > docs/strimzi.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from twinlog.config.strimzi.fields import FIELDS, FORBIDDEN, OLD, Field

_INTRODUCTION = """\
# Strimzi's resource

<!-- Generated from the table of fields: python -m twinlog.config.strimzi.reference > docs/strimzi.md -->

twinlog runs Strimzi's `KafkaMirrorMaker2`, `v1beta2` and `v1`, as it is, on Kubernetes or anywhere else:

```console
$ twinlog check mirror.yaml --secrets /mnt/secrets
$ twinlog run mirror.yaml --secrets /mnt/secrets
$ twinlog plan mirror.yaml --secrets /mnt/secrets
```

`run` starts a worker of Kafka Connect with the group, the topics, the connectors and the names that Strimzi's operator
gives them, so that it goes on where Strimzi's own MirrorMaker 2 stood; that one has to be stopped before. Several
processes with the same file share the connectors. The REST API is at `http://127.0.0.1:8083`; `--listen http://:8083`
opens it to other machines, which several processes on several machines need, and the probes of a pod. Exit codes are
those of `run` (see [running](running.md#start-and-stop)), and 3 also where it cannot listen. The API asks for a login
with `--users FILE`, or the variable `TWINLOG_USERS_FILE`: lines `user=password`, plain or as `htpasswd -B` writes it.
A resource runs until it is stopped, and as a whole: there is no `--until` and no `--clusters`, because its connectors
are those of a group of workers, which no single process may end or leave out. A properties file that `twinlog convert`
makes of it has both, and positions of its own.

## Secrets and config maps

A value that the resource names by Secret and key is looked for in this order:

1. in a document `kind: Secret` or `kind: ConfigMap` of the same file;
2. in the file `DIR/<name>/<key>`, as Kubernetes mounts them: `--secrets DIR`, or the variable `TWINLOG_SECRETS_DIR`;
3. in the variable `TWINLOG_SECRET_<NAME>_<KEY>`, in capitals, with `_` for every other character.

So is what `${secrets:NAMESPACE/NAME:KEY}` refers to, where `config.providers` of the target names
`io.strimzi.kafka.KubernetesSecretConfigProvider` or `io.strimzi.kafka.KubernetesConfigMapConfigProvider`.

The worker's topics and its REST API have references, never values. When a file of a Secret changes, the connectors that
use it begin anew within ten seconds; for a new login of the worker itself the process has to be restarted.

## What a running process does when the file changes

The file is read every second, also behind links as Kubernetes swaps them. The process that leads the group acts:

| in the file | what happens |
|---|---|
| `state: paused`, `pause: true` | nothing is copied, positions and tasks are kept; `running` goes on there |
| `state: stopped` | the same without tasks; now `twinlog connectors offsets` can alter positions |
| `replicas: 0` | every connector is paused |
| another `config`, pattern, `tasksMax` | the connector goes on with it |
| a connector or a mirror that comes or goes | it is created, or deleted; positions stay, by its name |
| another alias of a cluster | its connectors have other names: they copy everything anew, [see below](#offsets) |
| annotation `strimzi.io/restart-connector` | `<connector>[:includeTasks,onlyFailed]` is restarted, once a value |
| annotation `strimzi.io/restart-connector-task` | `<connector>:<n>` is restarted, once a value |
| annotation `strimzi.io/connector-offsets` | stored [offsets](#offsets) are listed, altered or reset |
| annotation `strimzi.io/pause-reconciliation: "true"` | nothing is done until it goes |
| `logging` of type inline | levels of loggers, by the names that Kafka gives them |
| `autoRestart` | what failed is restarted after 0, 2, 6, 12, 20 … minutes, 60 at most, until `maxRestarts` |
| another target, login or setting of the worker | nothing; the log asks for a restart of the process |
| something wrong | nothing, not even what is right in it; the log names file, line and path |
| a Secret is named that is not there yet | the same, until it is there |
| it is away, or empty | nothing; what was read before stays in effect |

Two resources with one target need each a group and topics of its own, as with Strimzi: `group.id` and the three topics
are the same for all in v1beta2 unless they are set. With Strimzi each then deletes the connectors of the other. Here a
connector has the name of its resource (`twinlog.resource`): a resource that finds those of another one in its group
does nothing and logs why.

### Offsets

With `listOffsets.toConfigMap.name: NAME` at a connector, the annotations

```yaml
strimzi.io/connector-offsets: list
strimzi.io/mirrormaker-connector: east->west.MirrorSourceConnector
```

write what it has stored into `DIR/NAME/east--west.MirrorSourceConnector.json`, in the form of Connect's REST API. `DIR`
is that of `--offsets`, or the variable `TWINLOG_OFFSETS_DIR`; else that of `--secrets`, or of the file. Every process
with this file writes its own. `alter` stores what is in the same key of `alterOffsets.fromConfigMap.name`, which is
looked for as any ConfigMap is, and at last in `DIR`; `reset` deletes everything stored. For both the connector has to
be stopped: until it is, and as long as something else is wrong, the log reports it and it is tried again. Nothing is
done for annotations that were there when the process started, or once they are gone.

With the identity policy another alias would copy everything into the same topics a second time. The new source
connector is therefore not created, and the old one stays, unless the new one is to begin as `stopped`: list the
offsets of the old one before, write the new alias as `cluster`, alter those of the new one, and have it run.

An operator names a cluster by its alias alone: `source.cluster.alias` and `target.cluster.alias` of a file, also
[empty ones](configuration.md#names-that-are-kept), have no place in a resource, and `twinlog convert` lists them.

A connector of the group that is called as no resource would call it stays as it is, and is named once.

## From one form to another

```console
$ twinlog convert mm2.properties --to strimzi -o mirror
$ twinlog convert mirror.yaml --to properties -o mm2
$ twinlog convert worker.properties source.json checkpoint.json --to strimzi --version v1beta2 -o mirror
$ twinlog convert old.yaml --to strimzi -o new
```

`convert` writes a properties file, connectors with the file of their worker, or a resource, from any of them; of a
resource also the other version, with all that it holds. No secret is printed: those that stand in the input become
files `DIR/secrets/<name>/<key>` that nobody else may read, and references to them. What has no
place in the form asked for is named with file, line and key. No file is written over.

| exit code | of `convert` |
|---|---|
| 0 | everything was converted |
| 2 | the input or the command line is wrong, or a file exists; nothing was written |
| 3 | something could not be converted; the rest was written |

Positions go by the name of the source connector: `MirrorSourceConnector` in a dedicated MirrorMaker 2, and
`A->B.MirrorSourceConnector` in a resource. `convert` notes where a flow would therefore begin anew.

## Fields

An unknown field, a wrong value or a reference to nothing is an error with file, line and path. Fields that do nothing
here are named in one warning with their lines; so are settings in the `config` of a cluster that Strimzi drops:
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
    head = f"{_INTRODUCTION}{dropped}.\n\n| field | only in | here |\n|---|---|---|\n"
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
        return f"counts, with all that stands for `{alike}`"
    if field.named is not None:
        return f"named: {field.named}"
    return {"metadata": "counts: annotations, see above", "status": "ignored"}.get(path, "counts")


if __name__ == "__main__":
    sys.stdout.write(render())
