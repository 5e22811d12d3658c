"""Opens the exporter of traces if OpenTelemetry's variables enable tracing.

Upstream has no flag for tracing. kube-apiserver has ``--tracing-config-file``, and the kubelet has a part of
its configuration, but the controller managers have neither.

Variables: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from collections.abc import Mapping
from typing import Protocol

from ccm.tracing import Tracer

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"


class Exporter(Tracer, Protocol):
    """A tracer that sends its spans."""

    def close(self) -> None:
        """Send the remaining spans, for at most two seconds."""
        ...


def open_exporter(environment: Mapping[str, str], problems: list[str]) -> Exporter | None:
    """Open the exporter; None if tracing is off or fails. After a failure, adds ``problems``."""
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
            f"{endpoint} enables tracing, but the Python package {error.name!r} is missing. "
            "Install ccm-from-scratch[tracing], which the container image doesn't include"
        )
    except ValueError as error:  # the import of the SDK parses some variables
        problems.append(
            f"{endpoint} enables tracing, but OpenTelemetry rejects the value of a variable: {error}"
        )
    return None
