"""``python -m ccm plan`` prints what the controllers would change now, from the same pure functions."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ccm.cloud import Cloud, CloudError, Instance, InstanceNotFound, KnowsOthers, LoadBalancers, NotOurs
from ccm.controllers.label_changes import followed, labels_for, promoted_labels
from ccm.controllers.names import OUT_OF_SERVICE_TAINT, SHUTDOWN_TAINT, UNINITIALIZED_TAINT
from ccm.controllers.node import introduction
from ccm.controllers.node_addresses import wanted_addresses
from ccm.controllers.node_lifecycle import SHUTDOWN, free_volumes, is_our_taint
from ccm.controllers.nodes import add_taint, addresses_of, has_taint, is_ready, remove_taints
from ccm.controllers.nodes import view_of as node_view
from ccm.controllers.service.hosts import hosts_among
from ccm.controllers.service.policy import Classes, has_finalizer, needs_cleanup, wants_load_balancer
from ccm.controllers.service.syncer import view_of
from ccm.errors import CcmError, ConfigurationError
from ccm.kube.events import EventRecorder
from ccm.kube.objects import Node, Service
from ccm.kube.transport import KubernetesTransport
from ccm.manager.clouds import open_chosen
from ccm.manager.controllers import ControllerContext, build_route, lifecycle_options, node_options
from ccm.manager.flags import FLAGS, ParsedFlags, parse_flags
from ccm.manager.flags.flag_table import NODE, NODE_LIFECYCLE, ROUTE, SERVICE
from ccm.manager.logs import Redactor, set_up_logs
from ccm.manager.metrics import Metrics
from ccm.manager.options import Options, problems_of
from ccm.output import FAILED, OK, print_errors
from ccm.tools.deployed_settings import Deployed, settings_from
from ccm.version import VERSION

SYNC_TIMEOUT = 60.0


@dataclass
class Findings:
    """By subject, the steps (empty = nothing to do), or the error that prevents a plan."""

    steps: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    errors: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        lines: list[str] = []
        for subject, steps in self.steps.items():
            if steps:
                lines += [subject, *(f"  {step}" for step in steps)]
        idle = sum(1 for steps in self.steps.values() if not steps)
        if idle:
            verb = "is" if idle == 1 else "are"
            subjects = f"other {verb} up to date" if idle == 1 else f"others {verb} up to date"
            nothing = f"{'subject' if idle == 1 else 'subjects'} {verb} up to date, nothing to do"
            lines.append(f"{idle} {subjects if lines else nothing}")
        return "\n".join(lines) or "there is nothing to plan"


async def plan_for(subject: str, context: ControllerContext) -> Findings:
    """Plan for a subject as on the command line; empty = everything. The cloud of ``context`` is started.

    Controllers that ``--controllers`` disables are left out. Raises ConfigurationError if there is no such
    subject, or no controller for it, and another CcmError if cluster or cloud can't be read.
    """
    kind, _, name = subject.partition("/")
    plural = {"service": "services", "node": "nodes"}.get(kind, kind)
    known = {"nodes": (NODE, NODE_LIFECYCLE), "services": (SERVICE,), "routes": (ROUTE,)}
    if kind and plural not in known:
        raise ConfigurationError(
            [f"plan: {subject!r} is not service/NAME, services, node/NAME, nodes or routes"]
        )
    looked_after = [one for one, controllers in known.items() if any(map(context.options.runs, controllers))]
    if kind and plural not in looked_after:
        entries = ",".join(context.options.flags["controllers"])
        raise ConfigurationError([f"plan: --controllers={entries} disables the controllers of {plural}"])
    findings = Findings()
    work = {"nodes": _nodes, "services": _services, "routes": _routes}
    async with _synced(context):
        for kind_name in looked_after:
            if plural in ("", kind_name):
                await work[kind_name](name, context, findings)
    return _named(subject, findings)


async def compare(subject: str, context: ControllerContext, other: str) -> Findings:
    """Say what another cloud-controller-manager would do differently with Services.

    Raises ConfigurationError if there is no such subject, or the cloud does not know the other manager, and
    another CcmError if cluster or cloud can't be read.
    """
    kind, _, name = subject.partition("/")
    balancers = context.cloud.load_balancers
    if kind not in ("", "service", "services"):
        raise ConfigurationError(
            [f"plan: --for requires service/NAME or services, but the argument is {subject!r}"]
        )
    if not isinstance(balancers, KnowsOthers) or other not in balancers.others:
        known = ", ".join(balancers.others) if isinstance(balancers, KnowsOthers) else "none"
        raise ConfigurationError(
            [(f"plan: --for: {other!r} is not supported by this cloud; supported: {known}")]
        )
    findings = Findings()
    async with _synced(context):
        for service in _chosen(name, context):
            key = f"service {service.metadata.key}"
            if not wants_load_balancer(service):
                if name:
                    findings.steps[key] = []
                continue
            try:
                findings.steps[key] = list(await balancers.differences(view_of(service), other))
            except CloudError as error:
                findings.errors[key] = str(error)
    return _named(subject, findings)


def _named(subject: str, findings: Findings) -> Findings:
    if "/" in subject and not findings.steps and not findings.errors:
        raise ConfigurationError([f"plan: the cluster has no {subject} that this CCM manages"])
    return findings


def _chosen(name: str, context: ControllerContext) -> list[Service]:
    """Our Services with the given name, or ``namespace/name``; empty = all of our Services."""
    flags = context.options.flags
    classes = Classes(frozenset(flags["load-balancer-classes"]), flags["services-without-class"])
    services = sorted(context.services.items(), key=lambda item: item.metadata.key)
    return [
        service
        for service in services
        if name in ("", service.metadata.key, service.metadata.name) and classes.contain(service)
    ]


async def _services(name: str, context: ControllerContext, findings: Findings) -> None:
    balancers = context.cloud.load_balancers
    if balancers is None:
        return
    views = [node_view(node) for node in hosts_among(context.nodes.items())]
    for service in _chosen(name, context):
        key = service.metadata.key
        try:
            if wants_load_balancer(service):
                view = view_of(service, hosts_excluded=not views and bool(context.nodes.items()))
                steps = list(await balancers.plan(view, views))
                findings.steps[f"service {key}"] = steps
            elif needs_cleanup(service):
                found = await balancers.find(view_of(service))
                gone = "deleted " if service.metadata.deletion_timestamp else ""
                steps = ["remove its load balancer"] if found is not None else []
                findings.steps[f"service {key}"] = [*steps, f"remove the finalizer from the {gone}Service"]
            elif name:
                findings.steps[f"service {key}"] = []
        except CloudError as error:
            findings.errors[f"service {key}"] = str(error)
    if not name:
        await _orphans(context, balancers, findings)


async def _orphans(context: ControllerContext, balancers: LoadBalancers, findings: Findings) -> None:
    kept = [
        service
        for service in context.services.items()
        if wants_load_balancer(service) or has_finalizer(service)
    ]
    try:
        found = await balancers.orphans({one.metadata.uid for one in kept})
    except CloudError as error:
        findings.errors["orphans"] = str(error)
        return
    steps = [f"keep {one.what} unchanged, because its Service ({one.uid}) does not exist" for one in found]
    if steps:
        findings.steps["orphans"] = steps


async def _routes(_name: str, context: ControllerContext, findings: Findings) -> None:
    controller = build_route(context)
    if controller is None:
        return
    try:
        plan = await controller.plan()
    except CloudError as error:
        findings.errors["routes"] = str(error)
        return
    steps = [f"delete route to {route.destination} via gateway {route.gateway}" for route in plan.deletions]
    steps += [
        (f"create route to {route_spec.destination} for node {route_spec.node}")
        for route_spec in plan.creations
    ]
    steps += [
        f"node {route_spec.node}: {route_spec.problem}" for route_spec in plan.specs if route_spec.problem
    ]
    steps += [f"delay the deletion of the route to {route.destination}" for route in plan.held_back]
    findings.steps["routes"] = steps


async def _nodes(name: str, context: ControllerContext, findings: Findings) -> None:
    instances = context.cloud.instances
    if instances is None:
        return
    nodes = sorted(context.nodes.items(), key=lambda item: item.metadata.name)
    nodes = [node for node in nodes if name in ("", node.metadata.name)]
    views = [node_view(node, asks_power=not is_ready(node)) for node in nodes]
    answers = await instances.list(views, accepted_age=60)
    for node in nodes:
        subject = f"node {node.metadata.name}"
        try:
            findings.steps[subject] = _node_steps(node, answers[node.metadata.name], context.options)
        except CcmError as error:
            findings.errors[subject] = str(error)


def _node_steps(node: Node, answer: Instance | CloudError, options: Options) -> list[str]:
    """The steps of the enabled controllers for a Node."""
    if isinstance(answer, NotOurs):
        return []
    if isinstance(answer, CloudError) and not isinstance(answer, InstanceNotFound):
        raise answer
    steps: list[str] = []
    if options.runs(NODE) and isinstance(answer, Instance):
        steps += _description_steps(node, answer, refresh_labels=node_options(options).refresh_labels)
    if options.runs(NODE_LIFECYCLE):
        steps += _lifecycle_steps(node, answer, options)
    return steps


def _description_steps(node: Node, instance: Instance, *, refresh_labels: bool) -> list[str]:
    """The steps that write addresses, provider ID and labels, and remove the taint."""
    steps: list[str] = []
    is_new = has_taint(node, UNINITIALIZED_TAINT) or not node.spec.provider_id
    if instance.addresses or is_new:
        wanted = wanted_addresses(node, instance.addresses)
        if instance.addresses and tuple(wanted) != addresses_of(node):
            steps.append(
                "set addresses: " + ", ".join(f"{address.type} {address.address}" for address in wanted)
            )
    present = node.metadata.labels
    if is_new:
        body = introduction(node, instance) or {}
        spec, labels = body.get("spec", {}), body.get("metadata", {}).get("labels", {})
    else:
        kept_true = instance if refresh_labels else followed(instance)
        spec, labels = dict[str, Any](), {**promoted_labels(present), **labels_for(kept_true, present).set}
    if "providerID" in spec:
        steps.append(f"set provider ID {spec['providerID']}")
    if labels:
        steps.append("set labels: " + ", ".join(f"{key}={value}" for key, value in sorted(labels.items())))
    if "taints" in spec:
        steps.append(f"remove the taint {UNINITIALIZED_TAINT}")
    return steps


def _lifecycle_steps(node: Node, answer: Instance | InstanceNotFound, options: Options) -> list[str]:
    """What would become of a Node whose machine is gone, off, or on again."""
    chosen = lifecycle_options(options)
    if is_ready(node):
        is_marked = remove_taints(node, is_our_taint)
        return ["remove the taints that the CCM set because the machine was shut down"] if is_marked else []
    if isinstance(answer, InstanceNotFound):
        may_go = node.spec.provider_id or chosen.delete_without_provider_id
        gone = "delete the Node, if the cloud confirms that its machine doesn't exist"
        return [gone] if may_go else []
    if not answer.shut_down:
        return []
    steps = (
        [f"add the taint {SHUTDOWN_TAINT}, because the machine is off"] if add_taint(node, SHUTDOWN) else []
    )
    if chosen.out_of_service and free_volumes(node):
        why = "so that Kubernetes deletes the Pods of the node and detaches their volumes"
        steps.append(f"add the taint {OUT_OF_SERVICE_TAINT}, {why}")
    return steps


@asynccontextmanager
async def _synced(context: ControllerContext) -> AsyncGenerator[None, None]:
    """Have complete lists of the watched objects during the block; raises CcmError if they can't be read."""
    watched = [context.nodes, context.services]
    tasks = [asyncio.create_task(informer.run()) for informer in watched]
    try:
        async with asyncio.timeout(SYNC_TIMEOUT):
            for informer in watched:
                await informer.synced.wait()
    except TimeoutError:
        why = next((one.last_error for one in watched if one.last_error), "no answer")
        raise CcmError(f"can't read Nodes and Services from the API server: {why}") from None
    else:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_USAGE = """Prints the changes that the CCM would make now. This command changes nothing.

Usage:
  python -m ccm plan [SUBJECT] [--settings-from=deployment/NAMESPACE/NAME] [--for=official] [flags of the CCM]

SUBJECT is service/NAME, service/NAMESPACE/NAME, services, node/NAME, nodes or routes. Without SUBJECT, the
command prints the changes of all Services, Nodes and routes.

The command needs the flags and environment variables of the running CCM. --settings-from reads these flags
and variables from the Deployment or DaemonSet (daemonset/...) of our CCM or of the official CCM, and from the
Secrets and ConfigMaps that this object references. Variables of your shell and flags on the command line take
precedence.

--for=official prints the annotations that the official CCM (v1.39.0) can't read or would treat differently.
--for=official also prints the changes that you must make before you switch back to the official CCM.

Without --kubeconfig, the command uses the file in KUBECONFIG. If KUBECONFIG isn't set, the command uses the
service account of the Pod.
"""
_WHERE_SETTINGS_ARE = (
    "the command needs the flags and environment variables of the running CCM. The option "
    "--settings-from=deployment/NAMESPACE/NAME reads these settings from the cluster"
)


@dataclass(frozen=True)
class Asked:
    """The parsed command line; missing options are empty, and ``flags`` are the manager's flags."""

    subject: str
    other: str
    settings_from: str
    flags: tuple[str, ...]


def read_command_line(words: Sequence[str]) -> Asked:
    """Separate our own options from the manager's flags."""
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
    """Run the command, by default with this process' arguments and environment; returns the exit code."""
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
    """Settings of the Deployment; this command's own flags and variables take precedence."""
    flags = parse_flags(FLAGS, [*deployed.flags, *asked.flags])
    # The way from a Pod to the API server doesn't work here.
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
        # Like kubectl, because users run this command. The manager itself ignores KUBECONFIG.
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
    # As with lint: differences of the other CCM are findings, but the steps of a plan aren't.
    return FAILED if asked.other and any(findings.steps.values()) else OK
