"""``python -m ccm plan``: takes the manager's flags and environment, and says what would be done."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ccm.cloud import Cloud
from ccm.errors import CcmError, ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.kube.transport import KubernetesTransport
from ccm.manager.clouds import open_chosen
from ccm.manager.controllers import ControllerContext
from ccm.manager.flags import FLAGS, ParsedFlags, parse_flags
from ccm.manager.logs import Redactor, set_up_logs
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options, problems_of
from ccm.output import FAILED, OK, print_errors
from ccm.tools.deployed_settings import Deployed, settings_from
from ccm.tools.plan import compare, plan_for
from ccm.version import VERSION

_USAGE = """What would be done now, without doing it.

Usage:
  python -m ccm plan [SUBJECT] [--settings-from=deployment/NAMESPACE/NAME] [--for=official] [manager's flags]

SUBJECT is service/NAME, service/NAMESPACE/NAME, services, node/NAME, nodes or routes; without it, all.

Flags and environment must be those of the running manager. --settings-from takes them from the Deployment
(or daemonset/...) in which it, or the official Hetzner CCM, runs; variables of this shell and flags that are
given here win. It reads the Secrets and ConfigMaps that the Deployment names.

With --for=official: not what we would do, but what the official Hetzner CCM (v1.39.0) can't read of the
Services, or would act on otherwise, each with what to do before the way back.

Without --kubeconfig the file that KUBECONFIG names is taken, or, without that too, the Pod's service account.
"""
_WHERE_SETTINGS_ARE = (
    "flags and environment must be those of the running manager: "
    "--settings-from=deployment/NAMESPACE/NAME takes them from the cluster"
)


@dataclass(frozen=True)
class Asked:
    """The command line.

    Attributes:
        subject: What to look at; empty = everything.
        other: For which other cloud-controller-manager; empty = what we would do.
        settings_from: In which Deployment the manager runs; empty = not asked for.
        flags: Words of the manager's flags.
    """

    subject: str
    other: str
    settings_from: str
    flags: tuple[str, ...]


def read_command_line(words: Sequence[str]) -> Asked:
    """Tell our own options from the manager's flags."""
    rest = list(words)
    subject = rest.pop(0) if rest and not rest[0].startswith("-") else ""
    own = {"--for": "", "--settings-from": ""}
    flags: list[str] = []
    while rest:
        name, separator, value = (word := rest.pop(0)).partition("=")
        if name in own:
            own[name] = value if separator else rest.pop(0) if rest else ""
        else:
            flags.append(word)
    return Asked(subject, own["--for"], own["--settings-from"], tuple(flags))


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """The command, by default with this process' words and variables; returns the exit code."""
    asked = read_command_line(sys.argv[2:] if arguments is None else arguments)
    variables = os.environ if environment is None else environment
    flags = parse_flags(FLAGS, asked.flags)
    if flags["help"]:
        print(_USAGE, end="")
        return OK
    try:
        if asked.settings_from:
            deployed = asyncio.run(_deployed(asked, flags, variables))
            flags, variables = together(asked, flags, deployed, variables)
            print(deployed.describe(asked.settings_from), file=sys.stderr)
        return _plan(asked, flags, variables)
    except ConfigurationError as error:
        return print_errors(error.problems)
    except CcmError as error:
        return print_errors([error], FAILED)


def together(
    asked: Asked, own: ParsedFlags, deployed: Deployed, variables: Mapping[str, str]
) -> tuple[ParsedFlags, Mapping[str, str]]:
    """Settings of the Deployment, with what was given here on top."""
    flags = parse_flags(FLAGS, [*deployed.flags, *asked.flags])
    # How a Pod reaches the API server is no way for us.
    reach = {name: own[name] for name in ("kubeconfig", "master")}
    return replace(flags, values={**flags.values, **reach}), {**deployed.variables, **variables}


async def _deployed(asked: Asked, flags: ParsedFlags, variables: Mapping[str, str]) -> Deployed:
    transport = await _connect(flags, variables)
    try:
        return await settings_from(asked.settings_from, transport, variables)
    finally:
        await transport.close()


def _plan(asked: Asked, flags: ParsedFlags, variables: Mapping[str, str]) -> int:
    problems = problems_of(flags)
    metrics = Metrics(VERSION)
    cloud = open_chosen(flags, variables, metrics.registry, problems, dry_run=True)
    if problems or cloud is None:
        return print_errors([*problems, *([] if asked.settings_from else [_WHERE_SETTINGS_ARE])])
    set_up_logs(form="text", verbosity=0, redactor=Redactor.of(variables))
    return asyncio.run(_run(asked, Options(flags), cloud, metrics, variables))


async def _connect(flags: ParsedFlags, variables: Mapping[str, str]) -> KubernetesTransport:
    return await KubernetesTransport.connect(
        environment=variables,
        # As kubectl, since a person types this; the manager itself takes nothing from KUBECONFIG.
        kubeconfig=flags["kubeconfig"] or variables.get("KUBECONFIG", ""),
        master=flags["master"],
        user_agent=f"cloud-controller-manager/v{VERSION}",
    )


async def _run(
    asked: Asked, options: Options, cloud: Cloud, metrics: Metrics, variables: Mapping[str, str]
) -> int:
    try:
        await cloud.start()
        transport = await _connect(options.flags, variables)
        try:
            recorder = EventRecorder(transport, "plan")  # it never sends: its outbox doesn't run
            context = ControllerContext(cloud, transport, recorder, options, metrics)
            if asked.other:
                findings = await compare(asked.subject, context, asked.other)
            else:
                findings = await plan_for(asked.subject, context)
        finally:
            await transport.close()
    finally:
        await cloud.close()
    print(findings)
    failed = print_errors((f"{name}: {why}" for name, why in findings.errors.items()), FAILED)
    if findings.errors:
        return failed
    # As lint: what the other one would do otherwise is a finding, and a plan is none.
    return FAILED if asked.other and any(findings.steps.values()) else OK
