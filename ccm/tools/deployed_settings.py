"""Reads flags and variables of a CCM, also of the official one, from its Deployment or DaemonSet."""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ccm.errors import ConfigurationError
from ccm.kube.errors import NotFound
from ccm.kube.objects import ConfigMap
from ccm.kube.protocol import Transport

_PATHS = {"deployment": "deployments", "daemonset": "daemonsets"}
_REFERENCE = re.compile(r"\$\(([-._A-Za-z0-9]+)\)")
_FILE = "_FILE"
Content = Mapping[str, str]
Source = tuple[str, str]
"""A Secret or ConfigMap: ``secrets`` or ``configmaps``, and its name."""
Object = Mapping[str, Any]
"""A part of a Deployment or DaemonSet as JSON, with the fields of k8s.io/api/core/v1 and apps/v1."""
_KINDS = (("secrets", "secret"), ("configmaps", "configMap"))
"""The kinds of a Source, and the first part of the fields that refer to them."""


@dataclass(frozen=True)
class Deployed:
    """The flags, and the variables except those that the caller's environment overrides (``own``)."""

    flags: tuple[str, ...]
    variables: Mapping[str, str]
    own: tuple[str, ...] = ()

    def describe(self, name: str) -> str:
        """A description without values, because some values are secret."""
        shell = f"; your shell's variables take precedence: {', '.join(self.own)}" if self.own else ""
        return f"• settings of {name}{shell}"


async def settings_from(name: str, transport: Transport, own: Mapping[str, str]) -> Deployed:
    """Read the settings of ``deployment/NAMESPACE/NAME`` or ``daemonset/…``; the namespace may be left out.

    Reads no Secret for variables of ``own``, the caller's environment. Raises ConfigurationError if the name
    is wrong or the object doesn't exist. Raises KubernetesError if the API server denies access to the
    object, or to a Secret or ConfigMap with its settings.
    """
    kind, *rest = name.split("/")
    if kind not in _PATHS or not 1 <= len(rest) <= 2 or not all(rest):
        raise ConfigurationError(
            [f"plan: --settings-from: {name!r} is not deployment/NAMESPACE/NAME or daemonset/NAMESPACE/NAME"]
        )
    namespace = rest[0] if len(rest) == 2 else "kube-system"
    path = f"/apis/apps/v1/namespaces/{namespace}/{_PATHS[kind]}/{rest[-1]}"
    try:
        pod = pod_of(await transport.get(path, dict[str, Any]))
    except NotFound:
        raise ConfigurationError(
            [f"plan: --settings-from: there is no {kind} {rest[-1]} in namespace {namespace}"]
        ) from None
    contents = {source: await _content(transport, namespace, source) for source in sources(pod, own)}
    return settings(pod, contents, own)


async def _content(transport: Transport, namespace: str, source: Source) -> Content:
    kind, name = source
    try:
        # A Secret has the same shape, with values in base64.
        found = await transport.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}", ConfigMap)
    except NotFound:
        return {}  # it must be optional, because otherwise the Pod couldn't start
    if kind == "configmaps":
        return found.data
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in found.data.items()}


def pod_of(workload: Object) -> Object:
    """The spec of the Pods of a Deployment or DaemonSet."""
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def _manager(pod: Object) -> Object:
    """The container with a cloud provider's flags, or the first."""
    for container in pod["containers"]:
        if any("--cloud-provider" in word for word in _flags(container)):
            return container
    return pod["containers"][0]


def _flags(container: Object) -> list[str]:
    """The words from the first flag on. Charts write flags into the command or into the arguments."""
    words = [*container.get("command", ()), *container.get("args", ())]
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    return words[first:]


def sources(pod: Object, own: Mapping[str, str]) -> list[Source]:
    """The Secrets and ConfigMaps whose content is needed."""
    manager = _manager(pod)
    needed = [reference[0] for entry in manager.get("envFrom", ()) if (reference := _reference(entry, "Ref"))]
    for variable in manager.get("env", ()):
        name = variable["name"]
        if name in own or name.removesuffix(_FILE) in own:
            continue
        if reference := _key_of(variable):
            needed.append(reference[0])
        elif name.endswith(_FILE):
            needed += [source for source, _ in _files(pod, variable.get("value", ""))]
    return list(dict.fromkeys(needed))


def settings(pod: Object, contents: Mapping[Source, Content], own: Mapping[str, str]) -> Deployed:
    """Put flags and variables together; ``contents`` are those of :func:`sources`."""
    manager, variables = _manager(pod), dict[str, str]()
    for entry in manager.get("envFrom", ()):
        source, _ = _reference(entry, "Ref") or (("", ""), "")
        prefix = entry.get("prefix", "")
        variables |= {prefix + key: value for key, value in contents.get(source, {}).items()}
    for variable in manager.get("env", ()):
        value = _value(variable, contents)
        if value is not None:
            variables[variable["name"]] = _expanded(value, variables)
    flags = tuple(_expanded(word, {**variables, **own}) for word in _flags(manager))
    found = _without_files(pod, variables, contents)
    mine = {
        name: value
        for name, value in found.items()
        if not {name, name.removesuffix(_FILE), name + _FILE} & own.keys()
    }
    both = {variable["name"] for variable in manager.get("env", ())} | variables.keys()
    shared = {name.removesuffix(_FILE) for name in both} & own.keys()
    return Deployed(flags, mine, tuple(sorted(shared)))


def _without_files(
    pod: Object, variables: Mapping[str, str], contents: Mapping[Source, Content]
) -> dict[str, str]:
    """Replace ``X_FILE``, which names a file in the Pod, by ``X`` with the file's content if known."""
    result: dict[str, str] = {}
    for name, value in variables.items():
        files = list(_files(pod, value)) if name.endswith(_FILE) else []
        found = [contents[source][key] for source, key in files if key in contents.get(source, {})]
        if found:
            result[name.removesuffix(_FILE)] = found[0].strip()
        else:
            result[name] = value
    return result


def _reference(part: Object, suffix: str) -> tuple[Source, str] | None:
    """The Secret or ConfigMap to which a field refers, and the key in it."""
    for kind, field in _KINDS:
        if found := part.get(field + suffix):
            return (kind, found.get("name", "")), found.get("key", "")
    return None


def _key_of(variable: Object) -> tuple[Source, str] | None:
    """The Secret or ConfigMap, and the key, from which a variable's value comes."""
    return _reference(variable.get("valueFrom", {}), "KeyRef")


def _value(variable: Object, contents: Mapping[Source, Content]) -> str | None:
    """The value. None = an optional key is missing, or only the Pod knows the value, like its node."""
    if reference := _key_of(variable):
        source, key = reference
        return contents.get(source, {}).get(key)
    return None if "valueFrom" in variable else variable.get("value", "")


def _files(pod: Object, path: str) -> Iterator[tuple[Source, str]]:
    """The possible Secrets or ConfigMaps, and their keys, of a file in the container."""
    for mount in _manager(pod).get("volumeMounts", ()):
        folder = mount["mountPath"].rstrip("/") + "/"
        if not path.startswith(folder) or mount.get("subPath"):
            continue
        relative = path.removeprefix(folder)
        for volume in pod.get("volumes", ()):
            if volume["name"] != mount["name"]:
                continue
            for part in (volume, *(volume.get("projected", {}).get("sources") or ())):
                for kind, field in _KINDS:
                    if files := part.get(field):
                        keys = {item["path"]: item["key"] for item in files.get("items", ())}
                        name = files.get("secretName") or files.get("name", "")
                        yield (kind, name), keys.get(relative, relative)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` as the kubelet replaces it."""
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), text)
