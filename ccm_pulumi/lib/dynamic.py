"""The base of dynamic providers: when a resource changes, and errors without stack traces."""

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pulumi
from pulumi.dynamic import (
    ConfigureRequest,
    CreateResult,
    DiffResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from .cloud_api import Cloud, cloud_of
from .errors import InfraError

DRIFT = "drift"
"""The differences between server and state. ``read`` records this property, ``update`` repairs the server."""
_STATE_KEY = "__provider"
_KEY = "private_key"


def _recording(update: Callable[..., UpdateResult]) -> Callable[..., UpdateResult]:
    """An ``update`` that only records another way to a server, if no other relevant input has changed."""

    @functools.wraps(update)
    def recording(self: Any, _id: str, _olds: Mapping[str, Any], _news: Mapping[str, Any]) -> UpdateResult:
        names = {*changed_inputs(_olds, _news)}
        noted = {_KEY, *self.recorded_inputs} & {*self.ignored_inputs}
        if names & noted and names <= {*self.ignored_inputs} and not _olds.get(DRIFT):
            return UpdateResult({**_olds, **{name: _news[name] for name in names if _news[name] is not None}})
        return update(self, _id, _olds, _news)

    return recording


class Provider(ResourceProvider):
    """A provider whose resources change when an input changes.

    Subclasses name in ``replaced_by`` the inputs that need a new resource; every other changed input is an
    update, which by default creates again. A replaced resource is deleted before the new one is created.

    Methods have the SDK's names for their parameters (``_id``, ``_olds``, ``_news``, ``_props``), underscores
    included, though they are used: ``_olds`` is the state, ``_news`` are the wanted inputs.
    """

    serialize_as_secret_always = False
    id_format: ClassVar[str]
    """Format of the ID, with input names in braces. A class with its own ``create`` ignores this format."""
    replaced_by: ClassVar[tuple[str, ...]] = ()
    ignored_inputs: ClassVar[tuple[str, ...]] = ()
    """If only these inputs change, such as ``drain_seconds``, Pulumi doesn't update the resource.

    The state keeps the old values, so ``delete`` must not use these inputs. If only ``private_key`` changes,
    Pulumi stores the new key, but doesn't change the server.
    """
    recorded_inputs: ClassVar[tuple[str, ...]] = ()
    """Inputs in ``ignored_inputs`` that ``read`` uses. If only inputs in ``ignored_inputs`` change, Pulumi
    stores the new values of these inputs in the state, but doesn't change the server."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Wraps ``update``, so that a new SSH key alone does not change the server."""
        super().__init_subclass__(**options)
        if "update" in vars(cls):
            cls.update = _recording(cls.update)  # type: ignore[method-assign]

    def configure(self, req: ConfigureRequest) -> None:
        """Called once in the process that serves dynamic resources."""
        del req
        _show_our_errors_without_trace()

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Compares inputs with the state."""
        changed = changed_inputs(_olds, _news)
        replaces = [name for name in changed if name in self.replaced_by]
        relevant = [
            name
            for name in changed
            if name not in self.ignored_inputs or name in (_KEY, *self.recorded_inputs)
        ]
        return DiffResult(changes=bool(relevant), replaces=replaces, delete_before_replace=True)

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Records the inputs."""
        return CreateResult(self.id_format.format_map(props), dict(props))

    @_recording
    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Creates again in place."""
        return UpdateResult(self.create(_news).outs)


class CloudProvider(Provider):
    """A provider that uses the cloud's API. Its token is in the stack's configuration: it must not be in the
    state. A method raises ConfigurationError without a token, and CloudError if the API does not answer.
    """

    configuration_keys: ClassVar[tuple[str, ...]] = ("hcloud:token", "hcloud:endpoint")
    """The keys that the provider reads from the stack's configuration."""
    _configuration: Mapping[str, Any] = MappingProxyType({})

    def configure(self, req: ConfigureRequest) -> None:
        """Keeps the values of ``configuration_keys``."""
        super().configure(req)
        self._configuration = {name: req.config.get(name) for name in self.configuration_keys}

    def cloud(self) -> Cloud:
        """The cloud's API; a ConfigurationError means that there is no token."""
        return cloud_of(self._configuration, os.environ)


class ProviderResource(Resource):
    """A resource of one of our providers: inputs are keyword arguments, outputs the class's annotations."""

    secret_outputs: ClassVar[tuple[str, ...]] = ()
    _of: ClassVar[type[Provider]]

    def __init_subclass__(cls, *, provider: type[Provider], type_name: str = "") -> None:
        """Registers the type; ``type_name`` is the one in URNs, if an earlier version's class had that."""
        super().__init_subclass__(module="ccm-from-scratch", name=type_name or cls.__name__)
        cls._of = provider

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None, /, **inputs: Any) -> None:
        outputs = dict.fromkeys(inspect.get_annotations(type(self)))
        secret = pulumi.ResourceOptions(additional_secret_outputs=[*self.secret_outputs])
        options = pulumi.ResourceOptions.merge(secret, opts) if self.secret_outputs else opts
        super().__init__(self._of(), name, {**outputs, **inputs}, options)
        for output in self.secret_outputs:
            # only the engine marks it as secret: mark what is derived from it, too
            setattr(self, output, pulumi.Output.secret(getattr(self, output)))


def changed_inputs(olds: Mapping[str, Any], news: Mapping[str, Any]) -> list[str]:
    """Names of the inputs whose value differs from the state. Absent, None and empty are the same.

    So a new input that is empty by default changes nothing in existing stacks.
    """
    return [
        name
        for name in sorted({*news})
        if name != _STATE_KEY and _or_none(olds.get(name)) != _or_none(news[name])
    ]


def is_unknown(value: Any) -> bool:
    """Whether a value is known only after another resource is created."""
    return isinstance(value, pulumi.output.Unknown)


def _or_none(value: Any) -> Any:
    return None if value in ({}, [], ()) else value


def _show_our_errors_without_trace() -> None:
    # The SDK's provider server answers every exception with traceback.format_exc(). Our errors are complete
    # messages to a person; only in that process we give the message alone.
    main = sys.modules["__main__"].__spec__
    if main is None or not main.name.startswith("pulumi.dynamic"):
        return
    with_trace = traceback.format_exc

    def format_exc(*arguments: Any, **options: Any) -> str:
        error = sys.exc_info()[1]
        return str(error) if isinstance(error, InfraError) else with_trace(*arguments, **options)

    traceback.format_exc = format_exc
