"""`python -m ccm plan`: what would be done to the cloud and the cluster now, without doing it.

It takes the manager's flags and environment, and asks the same pure functions that the controllers follow.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ccm.cloud import Cloud, CloudError, Instance, InstanceNotFound, LoadBalancers, NotOurs
from ccm.controllers.addresses import wanted_addresses
from ccm.controllers.node import introduction
from ccm.controllers.nodes import addresses_of, is_ready
from ccm.controllers.nodes import view_of as node_view
from ccm.controllers.service.hosts import hosts_among
from ccm.controllers.service.policy import (
    Classes,
    has_finalizer,
    needs_cleanup,
    view_of,
    wants_load_balancer,
)
from ccm.errors import CcmError, ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.kube.objects import Node, Service
from ccm.kube.transport import KubernetesTransport
from ccm.manager.clouds import open_chosen
from ccm.manager.controllers import Workshop, build_route
from ccm.manager.flag_table import FLAGS
from ccm.manager.flags import parse_flags
from ccm.manager.logs import secrets_in, set_up_logs
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options, problems_of
from ccm.version import VERSION

OK, FAILED, MISUSED = 0, 1, 2
SYNC_TIMEOUT = 60.0
_USAGE = """What would be done now, without doing it.

Usage:
  python -m ccm plan [SUBJECT] [manager's flags]

SUBJECT is service/NAME, service/NAMESPACE/NAME, services, node/NAME, nodes or routes; without it, all.
Flags and environment must be those of the running manager. Without --kubeconfig the file that KUBECONFIG
names is taken, or, without that too, the Pod's service account.
"""


@dataclass
class Findings:
    """What a look brought.

    Attributes:
        steps: By subject, what would be done; an empty list is nothing.
        errors: By subject, why that can't be told.
    """

    steps: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    errors: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        lines: list[str] = []
        for subject, steps in self.steps.items():
            if steps:
                lines += [subject, *(f"  {step}" for step in steps)]
        idle = sum(1 for steps in self.steps.values() if not steps)
        if idle:
            lines.append(f"{idle} {'subject is' if idle == 1 else 'subjects are'} as wanted, nothing to do")
        return "\n".join(lines) or "there is nothing to plan"


async def examine(subject: str, shop: Workshop) -> Findings:
    """Plan for a subject.

    Args:
        subject: As on the command line; empty = everything.
        shop: Cloud (started), API server, flags.

    Raises:
        ConfigurationError: there is no such subject.
        CcmError: cluster or cloud can't be read.
    """
    kind, _, name = subject.partition("/")
    known = {"service": _services, "services": _services, "routes": _routes, "nodes": _nodes, "node": _nodes}
    if kind and kind not in known:
        raise ConfigurationError(
            [f"plan: {subject!r} is not service/NAME, services, node/NAME, nodes or routes"]
        )
    findings = Findings()
    async with _synced(shop):
        for work in [known[kind]] if kind else [_nodes, _services, _routes]:
            await work(name, shop, findings)
    if name and not findings.steps and not findings.errors:
        raise ConfigurationError([f"plan: the cluster has no {subject}"])
    return findings


async def _services(name: str, shop: Workshop, findings: Findings) -> None:
    balancers, flags = shop.cloud.load_balancers, shop.options.flags
    if balancers is None:
        return
    classes = Classes(frozenset(flags["load-balancer-classes"]), flags["services-without-class"])
    services, nodes = shop.services.items(), hosts_among(shop.nodes.items())
    views = [node_view(node) for node in nodes]
    for service in sorted(services, key=lambda one: one.metadata.key):
        key = service.metadata.key
        if name not in ("", key, service.metadata.name) or not classes.contain(service):
            continue
        try:
            if wants_load_balancer(service):
                steps = list(await balancers.plan(view_of(service), views))
                findings.steps[f"service {key}"] = steps
            elif needs_cleanup(service):
                found = await balancers.find(view_of(service))
                findings.steps[f"service {key}"] = _cleanup(service, exists=found is not None)
            elif name:
                findings.steps[f"service {key}"] = []
        except CloudError as error:
            findings.errors[f"service {key}"] = str(error)
    if not name:
        await _orphans(shop, balancers, findings)


async def _orphans(shop: Workshop, balancers: LoadBalancers, findings: Findings) -> None:
    kept = [one for one in shop.services.items() if wants_load_balancer(one) or has_finalizer(one)]
    try:
        found = await balancers.orphans({one.metadata.uid for one in kept})
    except CloudError as error:
        findings.errors["orphans"] = str(error)
        return
    steps = [f"leave {one.what} alone: its Service ({one.uid}) does not exist" for one in found]
    if steps:
        findings.steps["orphans"] = steps


def _cleanup(service: Service, *, exists: bool) -> list[str]:
    steps = ["remove its load balancer"] if exists else []
    return [*steps, f"let the {'deleted ' if service.metadata.deletion_timestamp else ''}Service go"]


async def _routes(_name: str, shop: Workshop, findings: Findings) -> None:
    controller = build_route(shop)
    if controller is None:
        return
    try:
        plan = await controller.plan()
    except CloudError as error:
        findings.errors["routes"] = str(error)
        return
    steps = [f"delete route to {route.destination} by {route.gateway}" for route in plan.deletions]
    steps += [f"make route to {wish.destination} for node {wish.node}" for wish in plan.creations]
    steps += [f"node {wish.node}: {wish.problem}" for wish in plan.wishes if wish.problem]
    steps += [f"hold back the deletion of the route to {route.destination}" for route in plan.held_back]
    findings.steps["routes"] = steps


async def _nodes(name: str, shop: Workshop, findings: Findings) -> None:
    instances = shop.cloud.instances
    if instances is None:
        return
    nodes = sorted(shop.nodes.items(), key=lambda one: one.metadata.name)
    nodes = [node for node in nodes if name in ("", node.metadata.name)]
    views = [node_view(node, asks_power=not is_ready(node)) for node in nodes]
    answers = await instances.list(views, accepted_age=60)
    for node in nodes:
        subject = f"node {node.metadata.name}"
        try:
            findings.steps[subject] = _node_steps(node, answers[node.metadata.name])
        except CcmError as error:
            findings.errors[subject] = str(error)


def _node_steps(node: Node, answer: Instance | CloudError) -> list[str]:
    if isinstance(answer, NotOurs):
        return []
    if isinstance(answer, InstanceNotFound):
        if is_ready(node):
            return []
        return ["delete the Node, once the cloud has confirmed that its machine does not exist"]
    if isinstance(answer, CloudError):
        raise answer
    steps: list[str] = []
    wanted = wanted_addresses(node, answer.addresses)
    if answer.addresses and tuple(wanted) != addresses_of(node):
        steps.append("set addresses: " + ", ".join(f"{one.type} {one.address}" for one in wanted))
    body = introduction(node, answer) or {}
    spec = body.get("spec", {})
    if "providerID" in spec:
        steps.append(f"set provider ID {spec['providerID']}")
    if labels := body.get("metadata", {}).get("labels", {}):
        steps.append("set labels: " + ", ".join(f"{key}={value}" for key, value in sorted(labels.items())))
    if "taints" in spec:
        steps.append("remove the taint of nodes that are not initialised")
    if answer.shut_down and not is_ready(node):
        steps.append("add the taint of nodes whose machine is shut down")
    return steps


@asynccontextmanager
async def _synced(shop: Workshop) -> AsyncGenerator[None, None]:
    """Have complete lists of what is watched; the watches end with the block.

    Raises:
        CcmError: the API server does not give them.
    """
    watched = [shop.nodes, shop.services]
    tasks = [asyncio.create_task(informer.run()) for informer in watched]
    try:
        async with asyncio.timeout(SYNC_TIMEOUT):
            for informer in watched:
                await informer.synced.wait()
    except TimeoutError:
        why = next(
            (one.statistics().last_error for one in watched if one.statistics().last_error), "no answer"
        )
        raise CcmError(f"the API server can't be read: {why}") from None
    else:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def main(arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """The command; returns the exit code.

    Args:
        arguments: What stands after ``plan``.
        environment: Variables; this process' by default.
    """
    given = list(sys.argv[2:] if arguments is None else arguments)
    variables = os.environ if environment is None else environment
    subject = given.pop(0) if given and not given[0].startswith("-") else ""
    flags = parse_flags(FLAGS, given)
    if flags["help"]:
        print(_USAGE)
        return OK
    problems = problems_of(flags)
    metrics = Metrics(VERSION)
    cloud = open_chosen(flags, variables, metrics.registry, problems, dry_run=True)
    if problems or cloud is None:
        return _complain(problems)
    set_up_logs(form="text", verbosity=0, secrets=secrets_in(variables))
    try:
        return asyncio.run(_run(subject, Options(flags), cloud, metrics, variables))
    except ConfigurationError as error:
        return _complain(error.problems)
    except CcmError as error:
        print(f"Error: {error}", file=sys.stderr)
        return FAILED


def _complain(problems: Iterable[str]) -> int:
    for problem in problems:
        print(f"Error: {problem}", file=sys.stderr)
    return MISUSED


async def _run(
    subject: str, options: Options, cloud: Cloud, metrics: Metrics, environment: Mapping[str, str]
) -> int:
    flags = options.flags
    try:
        await cloud.start()
        transport = await KubernetesTransport.connect(
            environment=environment,
            # As kubectl, since a person types this; the manager itself takes nothing from KUBECONFIG.
            kubeconfig=flags["kubeconfig"] or environment.get("KUBECONFIG", ""),
            master=flags["master"],
            user_agent=f"cloud-controller-manager/v{VERSION}",
        )
        try:
            recorder = EventRecorder(transport, "plan")  # it never sends: nobody runs it
            findings = await examine(subject, Workshop(cloud, transport, recorder, options, metrics))
        finally:
            await transport.close()
    finally:
        await cloud.close()
    print(findings)
    for name, why in findings.errors.items():
        print(f"Error: {name}: {why}", file=sys.stderr)
    return FAILED if findings.errors else OK
