"""Whether the environment asks for traces, by OpenTelemetry's own variables, and who makes them then.

Upstream has no flag for it: kube-apiserver has ``--tracing-config-file`` and the kubelet a part of its
configuration, but the managers of controllers have neither.

Variables: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from collections.abc import Mapping
from typing import Protocol

from ccm.tracing import Tracer

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


class Exporter(Tracer, Protocol):
    """A tracer that sends what it makes."""

    def close(self) -> None:
        """Send what is left, for two seconds at most."""
        ...


def open_exporter(environment: Mapping[str, str], problems: list[str]) -> Exporter | None:
    """The exporter of traces; None if they are off, or can't be sent: then ``problems`` says why."""
    endpoint = next((name for name in _ENDPOINTS if environment.get(name, "").strip()), None)
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if endpoint is None or disabled or environment.get("OTEL_TRACES_EXPORTER", "").strip() == "none":
        return None
    asked = next((name for name in _PROTOCOLS if environment.get(name, "").strip()), None)
    if asked is not None and environment[asked].strip() != _HTTP:
        problems.append(
            f"{asked}: {environment[asked]!r} isn't supported. The only supported value is {_HTTP!r}"
        )
        return None
    try:
        # imported only for tracing, because the package needs memory and may be missing
        from ccm.manager.otel import OpenTelemetry  # noqa: PLC0415

        return OpenTelemetry.sending(environment)
    except ModuleNotFoundError as error:
        problems.append(
            f"{endpoint}: the variable enables tracing, but the Python package {error.name!r} is missing. "
            "Install ccm-from-scratch[tracing], which the container image doesn't include"
        )
    except ValueError as error:  # the SDK reads some of its variables when it is imported
        problems.append(
            f"{endpoint}: the variable enables tracing, but OpenTelemetry rejects a variable: {error}"
        )
    return None
