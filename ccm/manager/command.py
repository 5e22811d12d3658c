"""``python -m ccm``: parses the command line, runs the manager, and returns an exit code.

Exit codes: 0 after a normal end or SIGTERM, 1 after an error or a lost lease, 2 for a wrong command line or
environment. All mistakes in flags and environment are reported together.
"""

import asyncio
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any

import structlog

from ccm.cloud import Cloud
from ccm.errors import CcmError
from ccm.kube.backoff import TokenBucket
from ccm.kube.errors import LeaseLost
from ccm.kube.transport import KubernetesTransport
from ccm.manager.clouds import Factory, open_chosen
from ccm.manager.flags import FLAGS, ParsedFlags, parse_flags, usage
from ccm.manager.logs import Redactor, set_up_logs
from ccm.manager.manager import Manager
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options, problems_of
from ccm.manager.serving import Connections
from ccm.manager.trace_exporter import open_exporter
from ccm.output import FAILED, OK, print_errors
from ccm.version import VERSION

NAME = "cloud-controller-manager"
_USAGE = f"""{NAME} runs the controllers that connect a Kubernetes cluster with its cloud.

Usage:
  python -m ccm [flags]
  python -m ccm plan ...    prints the changes that the CCM would make now
  python -m ccm lint ...    checks the annotations in manifests, without a cluster
"""

log = structlog.stdlib.get_logger(__name__)


def main(
    arguments: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    clouds: Mapping[str, Factory] = MappingProxyType({}),
) -> int:
    """Run the manager until it ends; returns the exit code.

    Your own cloud-controller-manager calls this function with its clouds, as in docs/tutorial. ``clouds``
    maps values of ``--cloud-provider`` to factories, which take precedence over installed clouds. See
    :mod:`ccm.manager.clouds` for the arguments of a factory.
    """
    environment = os.environ if environment is None else environment
    flags = parse_flags(FLAGS, sys.argv[1:] if arguments is None else arguments)
    if flags["help"]:
        print(_USAGE + usage(FLAGS))
        return OK
    if flags["version"]:
        print(f"ccm-from-scratch v{VERSION}")
        return OK
    problems = problems_of(flags)
    tracer = open_exporter(environment, problems)
    metrics = Metrics(VERSION, tracer)
    cloud = open_chosen(flags, environment, metrics.registry, problems, own=clouds)
    if problems or cloud is None:
        code = print_errors(problems)
        print("python -m ccm --help lists all flags", file=sys.stderr)
        return code
    redactor = Redactor.of(environment)
    set_up_logs(form=flags["logging-format"], verbosity=flags["v"], redactor=redactor)
    options = Options(flags)
    log.info("starting", version=VERSION, flags={name: flags[name] for name in sorted(flags.given)})
    for name in options.without_effect(FLAGS):
        log.warning("flag_without_effect", flag=name)
    if options.routes_lack_range:
        log.warning(
            "routes_off",
            why=(
                "--cluster-cidr is not set, so the CCM creates no routes. If you don't need routes, set "
                "--configure-cloud-routes=false"
            ),
        )
    try:
        return asyncio.run(_until_signalled(_run(options, cloud, environment, metrics, redactor)))
    finally:
        if tracer is not None:
            tracer.close()


async def _until_signalled(manager: Coroutine[Any, Any, None]) -> int:
    """Run until SIGTERM or SIGINT, which stop all parts in order."""
    running = asyncio.create_task(manager, name="manager")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, running, number.name)
    try:
        await running
    except asyncio.CancelledError:
        log.info("stopped")
        return OK
    except LeaseLost as error:
        log.error("leader_election_lost", error=str(error))  # noqa: TRY400 - no stack helps here
        return FAILED
    except CcmError as error:
        log.error("failed", error=str(error))  # noqa: TRY400 - no stack helps here
        return FAILED
    except Exception:
        log.exception("crashed")
        return FAILED
    return OK


def _stop(running: asyncio.Task[None], signal_name: str) -> None:
    log.info("stopping", signal=signal_name)
    running.cancel()


async def _run(
    options: Options, cloud: Cloud, environment: Mapping[str, str], metrics: Metrics, redactor: Redactor
) -> None:
    async with AsyncExitStack() as stack:
        connections = await _connect(options.flags, environment, metrics, stack)
        manager = Manager(
            options,
            cloud,
            connections,
            metrics,
            identity=f"{socket.gethostname()}_{uuid.uuid4()}",
            clock=boot_time,
            redact=redactor.clean,
        )
        await manager.run()


async def _connect(
    flags: ParsedFlags, environment: Mapping[str, str], metrics: Metrics, stack: AsyncExitStack
) -> Connections:
    limited = flags.given & {"kube-api-qps", "kube-api-burst"} and flags["kube-api-qps"] > 0
    limiter = TokenBucket(flags["kube-api-qps"], flags["kube-api-burst"]) if limited else None

    async def connect(kubeconfig: str, bucket: TokenBucket | None = None) -> KubernetesTransport:
        transport = await KubernetesTransport.connect(
            environment=environment,
            kubeconfig=kubeconfig,
            master=flags["master"],
            user_agent=f"{NAME}/v{VERSION}",
            limiter=bucket,
            observe=metrics.requests.observe,
        )
        stack.push_async_callback(transport.close)
        return transport

    work = await connect(flags["kubeconfig"], limiter)
    # No shared rate limit: controllers must not delay lease renewals, nor client tokens the controllers.
    free = work.without_limit()
    others = [flags["authentication-kubeconfig"], flags["authorization-kubeconfig"]]
    authentication, authorization = [await connect(path) if path else free for path in others]
    return Connections(work, authentication, authorization, lease=free)


def boot_time() -> float:
    """Seconds since boot. Unlike other clocks, this clock runs while the machine is suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
