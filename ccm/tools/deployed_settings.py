"""Reads flags and variables of a CCM, also of the official one, from its Deployment or DaemonSet."""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ccm.errors import ConfigurationError
from ccm.kube.errors import NotFound
from ccm.kube.objects import ConfigMap, Part
from ccm.kube.protocol import Transport

_PATHS = {"deployment": "deployments", "daemonset": "daemonsets"}
_REFERENCE = re.compile(r"\$\(([-._A-Za-z0-9]+)\)")
_FILE = "_FILE"
Content = Mapping[str, str]
Source = tuple[str, str]
"""A Secret or ConfigMap: ``secrets`` or ``configmaps``, and its name."""


# These have the fields of k8s.io/api/core/v1 and apps/v1 that settings come from.
class _KeyReference(Part, frozen=True):
    name: str = ""
    key: str = ""


class _ValueFrom(Part, frozen=True):
    """Where a variable's value comes from; other origins are known to the Pod only."""

    secret_key_ref: _KeyReference | None = None
    config_map_key_ref: _KeyReference | None = None


class _Variable(Part, frozen=True):
    name: str = ""
    value: str = ""
    value_from: _ValueFrom | None = None


class _AllOf(Part, frozen=True):
    prefix: str = ""
    secret_ref: _KeyReference | None = None
    config_map_ref: _KeyReference | None = None


class _Mount(Part, frozen=True):
    name: str = ""
    mount_path: str = ""
    sub_path: str = ""


class _File(Part, frozen=True):
    key: str = ""
    path: str = ""


class _Files(Part, frozen=True):
    """A Secret or ConfigMap as files. Its name is in ``secret_name`` or ``name``."""

    secret_name: str = ""
    name: str = ""
    items: tuple[_File, ...] = ()


class _Projection(Part, frozen=True):
    secret: _Files | None = None
    config_map: _Files | None = None


class _Projected(Part, frozen=True):
    sources: tuple[_Projection, ...] = ()


class _Volume(Part, frozen=True):
    """A volume. Only its name is read if its kind can't contain settings."""

    name: str = ""
    secret: _Files | None = None
    config_map: _Files | None = None
    projected: _Projected = _Projected()


class _Container(Part, frozen=True):
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()
    env_from: tuple[_AllOf, ...] = ()
    volume_mounts: tuple[_Mount, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """The words from the first flag on. Charts write flags into the command or into the arguments."""
        words = self.command + self.args
        first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
        return words[first:]


class PodSpec(Part, frozen=True):
    """The fields of a Pod that determine the settings of its program."""

    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()

    @property
    def manager(self) -> _Container:
        """The container with a cloud provider's flags, or the first."""
        chosen = [
            container
            for container in self.containers
            if any("--cloud-provider" in word for word in container.flags)
        ]
        return [*chosen, *self.containers, _Container()][0]


class _Template(Part, frozen=True):
    spec: PodSpec = PodSpec()


class _WorkloadSpec(Part, frozen=True):
    template: _Template = _Template()


class Workload(Part, frozen=True):
    """A Deployment or DaemonSet."""

    spec: _WorkloadSpec = _WorkloadSpec()


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
        pod = (await transport.get(path, Workload)).spec.template.spec
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


def sources(pod: PodSpec, own: Mapping[str, str]) -> list[Source]:
    """The Secrets and ConfigMaps whose content is needed."""
    needed = [source for source_entry in pod.manager.env_from if (source := _all_of(source_entry))]
    for variable in pod.manager.env:
        if variable.name in own or variable.name.removesuffix(_FILE) in own:
            continue
        if reference := _key_of(variable):
            needed.append(reference[0])
        elif variable.name.endswith(_FILE):
            needed += [source for source, _ in _files(pod, variable.value)]
    return list(dict.fromkeys(needed))


def settings(pod: PodSpec, contents: Mapping[Source, Content], own: Mapping[str, str]) -> Deployed:
    """Put flags and variables together; ``contents`` are those of :func:`sources`."""
    variables: dict[str, str] = {}
    for source_entry in pod.manager.env_from:
        content = contents.get(_all_of(source_entry) or ("", ""), {})
        variables |= {source_entry.prefix + key: value for key, value in content.items()}
    for variable in pod.manager.env:
        value = _value(variable, contents)
        if value is not None:
            variables[variable.name] = _expanded(value, variables)
    flags = tuple(_expanded(word, {**variables, **own}) for word in pod.manager.flags)
    found = _without_files(pod, variables, contents)
    mine = {
        name: value
        for name, value in found.items()
        if not {name, name.removesuffix(_FILE), name + _FILE} & own.keys()
    }
    both = {variable.name for variable in pod.manager.env} | variables.keys()
    shared = {name.removesuffix(_FILE) for name in both} & own.keys()
    return Deployed(flags, mine, tuple(sorted(shared)))


def _without_files(
    pod: PodSpec, variables: Mapping[str, str], contents: Mapping[Source, Content]
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


def _key_of(variable: _Variable) -> tuple[Source, str] | None:
    """The Secret or ConfigMap, and the key, from which a variable's value comes."""
    origin = variable.value_from or _ValueFrom()
    if origin.secret_key_ref:
        return ("secrets", origin.secret_key_ref.name), origin.secret_key_ref.key
    if origin.config_map_key_ref:
        return ("configmaps", origin.config_map_key_ref.name), origin.config_map_key_ref.key
    return None


def _all_of(entry: _AllOf) -> Source | None:
    if entry.secret_ref:
        return "secrets", entry.secret_ref.name
    return ("configmaps", entry.config_map_ref.name) if entry.config_map_ref else None


def _value(variable: _Variable, contents: Mapping[Source, Content]) -> str | None:
    """The value. None = an optional key is missing, or only the Pod knows the value, like its node."""
    if reference := _key_of(variable):
        source, key = reference
        return contents.get(source, {}).get(key)
    return None if variable.value_from else variable.value


def _files(pod: PodSpec, path: str) -> Iterator[tuple[Source, str]]:
    """The possible Secrets or ConfigMaps, and their keys, of a file in the container."""
    for mount in pod.manager.volume_mounts:
        folder = mount.mount_path.rstrip("/") + "/"
        if not path.startswith(folder) or mount.sub_path:
            continue
        relative = path.removeprefix(folder)
        for volume in pod.volumes:
            if volume.name != mount.name:
                continue
            parts = [_Projection(volume.secret, volume.config_map), *volume.projected.sources]
            for part in parts:
                for kind, files in (("secrets", part.secret), ("configmaps", part.config_map)):
                    if files:
                        keys = {item.path: item.key for item in files.items}
                        yield (kind, files.secret_name or files.name), keys.get(relative, relative)


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` as the kubelet replaces it."""
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), text)
