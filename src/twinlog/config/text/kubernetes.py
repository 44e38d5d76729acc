"""Secrets and ConfigMaps of Kubernetes as values: `${name:NAMESPACE/SECRET:KEY}` asks the API server of the pod.

Strimzi's classes KubernetesSecretConfigProvider and KubernetesConfigMapConfigProvider are the model: paths, patterns of
keys, the separator between several values, and the variables of their client (fabric8) that replace the pod's own
account. Unlike those classes, a pattern or a key that matches no entry is an error.
"""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinlog.config.text.values import Lookup, MissingError

Kind = Literal["Secret", "ConfigMap"]
KUBERNETES_CLASSES: Mapping[str, Kind] = {
    "io.strimzi.kafka.KubernetesSecretConfigProvider": "Secret",
    "io.strimzi.kafka.KubernetesConfigMapConfigProvider": "ConfigMap",
}
"""Strimzi's providers that ask Kubernetes, each with the kind of its objects."""

TIMEOUT_S = 10.0
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATH = re.compile(r"(?:([a-z0-9.-]+)/)?([a-z0-9.-]+)")
_RESOURCES: Mapping[Kind, str] = {"Secret": "secrets", "ConfigMap": "configmaps"}
_REFUSED = (401, 403)
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class KubernetesApi:
    """The API server of the pod, and the account that asks it: the files of the token and of the authority."""

    url: str
    token: Path
    authority: Path
    namespace: str
    """The namespace of a path without a namespace."""

    def read(self, kind: Kind, namespace: str, name: str) -> dict[str, str]:
        """The entries of a Secret or a ConfigMap, as text. Raises MissingError."""
        shown = f"{kind} {name} in namespace {namespace}"
        address = f"{self.url}/api/v1/namespaces/{namespace}/{_RESOURCES[kind]}/{name}"
        try:
            # Kubernetes replaces the token, so each request reads it.
            headers = {"Accept": "application/json", "Authorization": f"Bearer {self.token.read_text('utf-8').strip()}"}
            context = ssl.create_default_context(cafile=str(self.authority)) if self.url.startswith("https:") else None
            request = urllib.request.Request(address, headers=headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
                found: Any = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            error.close()
            raise _refusal(kind, name, namespace, error.code) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise MissingError(
                f"{shown} is unreadable: the API server {self.url} gives no answer: {reason}",
                "check that the API server answers this pod, with the token and the authority of its service account",
            ) from None
        data = found.get("data") if isinstance(found, dict) else None
        entries = data if isinstance(data, dict) else {}
        return {key: _decoded(kind, str(value)) for key, value in entries.items()}


def _refusal(kind: Kind, name: str, namespace: str, code: int) -> MissingError:
    shown = f"{kind} {name} in namespace {namespace}"
    if code in _REFUSED:
        return MissingError(
            f"{shown} is unreadable: the API server answers {code}, so the pod's service account lacks the right",
            f"bind a Role with the verb get for the {_RESOURCES[kind]} named {name} to the pod's service account",
        )
    if code == _NOT_FOUND:
        return MissingError(f"{shown} is missing", f"create a {kind} of that name in that namespace")
    return MissingError(f"{shown} is unreadable: the API server answers {code}", "read the log of the API server")


def _decoded(kind: Kind, value: str) -> str:
    # A binary entry, for example a key store beside its password, leaves the other entries of the object readable.
    return base64.b64decode(value).decode("utf-8", "replace") if kind == "Secret" else value


def pod_api(environment: Mapping[str, str] = os.environ) -> KubernetesApi | None:
    """The API server as Kubernetes describes it to a pod; None outside of a pod."""
    url = environment.get("KUBERNETES_MASTER", "").rstrip("/")
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not url and not host:
        return None
    token = Path(environment.get("KUBERNETES_AUTH_SERVICEACCOUNT_TOKEN") or _ACCOUNT / "token")
    own = token.with_name("namespace")
    namespace = environment.get("KUBERNETES_NAMESPACE") or (
        own.read_text("utf-8").strip() if own.is_file() else "default"
    )
    return KubernetesApi(
        url or f"https://{f'[{host}]' if ':' in str(host) else host}:{port}",
        token,
        Path(environment.get("KUBERNETES_CERTS_CA_FILE") or token.with_name("ca.crt")),
        namespace,
    )


def kubernetes_lookup(api: KubernetesApi, kind: Kind, separator: str = "\n") -> Lookup:
    """A provider that reads objects of a kind; values of a pattern of keys are joined by `separator`."""

    def lookup(path: str, key: str) -> str:
        found = _PATH.fullmatch(path)
        if found is None:
            raise MissingError(f"{path!r} is an invalid path", f"write NAMESPACE/NAME, or NAME, of a {kind}")
        namespace, name = found[1] or api.namespace, found[2]
        entries = api.read(kind, namespace, name)
        names = sorted(one for one in entries if fnmatch.fnmatchcase(one, key))
        if not names:
            shown = ", ".join(sorted(entries)) or "no key at all"
            raise MissingError(
                f"{kind} {name} in namespace {namespace} lacks a key {key!r}", f"write a key of that {kind}: {shown}"
            )
        return separator.join(entries[one] for one in names)

    return lookup
