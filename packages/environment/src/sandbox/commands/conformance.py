"""``./dev conformance``: Kubernetes' own end-to-end tests, on the cluster of this clone."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from hetzner_machines.airgap import Airgap
from sandbox import cluster, conformance_lock, daemon, environment_lock
from sandbox.commands import load
from sandbox.console import Steps
from sandbox.environment import exports
from sandbox.errors import SandboxError
from sandbox.exit_codes import end_in_order
from sandbox.images import archive
from sandbox.kubernetes import toolchain
from sandbox.kubernetes.components import CRANE, KUBERNETES_TESTS
from sandbox.kubernetes.toolchain import Toolchain
from sandbox.kubernetes_tests import images, report, selection
from sandbox.kubernetes_tests import run as tests
from sandbox.kubernetes_tests.report import Result, Tally
from sandbox.kubernetes_tests.selection import Selection
from sandbox.output_paths import check_folder
from sandbox.site import Site

HELP = "run Kubernetes' end-to-end tests on the cluster of this clone"
PROCESSES = 4
_CLEAN_SECONDS = 180


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which tests."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--all",
        action="store_true",
        help="run all [Conformance] tests, which takes about 40 minutes on two cores",
    )
    which.add_argument(
        "--focus",
        type=_expression,
        metavar="REGEX",
        help="run the tests whose names match this Go regular expression",
    )
    which.add_argument(
        "--node-deletion",
        action="store_true",
        help="run the test that deletes the server of a worker; './dev up' creates the server again",
    )
    parser.add_argument(
        "--processes",
        type=_number,
        default=PROCESSES,
        metavar="N",
        help=f"the number of tests that run at the same time (default: {PROCESSES})",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help=f"the folder for {tests.LOG}, {tests.JUNIT} and {tests.JSON} (default: .sandbox/conformance, "
        "which './dev down' deletes)",
    )


def _expression(text: str) -> str:
    # Go judges the rest: its regular expressions are not Python's.
    if not text:
        raise argparse.ArgumentTypeError(
            "an empty expression matches every test; use --all to run the [Conformance] tests"
        )
    return text


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to 64")
    return int(text)


def run(site: Site, arguments: argparse.Namespace) -> int:
    """Run them, and print how it went; 1 when one failed."""
    load.require_runtime(daemon.require(site))
    steps = Steps()
    folder = (arguments.output or site.state / "conformance").resolve()
    check_folder(folder)
    chosen = _chosen(arguments)
    end_in_order()
    with ExitStack() as held:
        # later './dev up' may make a worker that was deleted
        with environment_lock.needing(site, "conformance"):
            lock = held.enter_context(conformance_lock.alone(site))
        base = toolchain.find(site.cache)
        if base is None:
            raise SandboxError(
                "the cache has no Kubernetes toolchain for this source tree; './dev up' builds the toolchain"
            )
        cluster.await_nodes(site, base, 60, lambda _: None)
        require_version(cluster.get(site, base, "nodes"))
        conformance_lock.undo(site, base, steps.note)
        folder.mkdir(parents=True, exist_ok=True)
        with steps.step("Kubernetes' tests (first build: ≈ 3 min)", "Kubernetes' tests") as progress:
            programs = toolchain.ensure(site.cache, progress, [KUBERNETES_TESTS])
        common = _bring_images(site, base, programs, steps, large=False)
        if chosen.large_images:
            _bring_images(site, base, programs, steps, large=True)
            _push_images(site, common, steps)
        _remove_namespaces(site, base, steps)
        wanted = tests.Run(
            programs=programs.bin,
            kubectl=base.bin / "kubectl",
            kubeconfig=site.kubeconfig,
            nodes=len(cluster.get(site, base, "nodes")),
            cloud={name: value for name, value in exports(site, None).items() if name.startswith("HCLOUD_")},
            chosen=chosen,
            processes=arguments.processes,
            folder=folder,
        )
        try:
            # Where a server is deleted, it is one that takes Pods: meanwhile none with a control plane does.
            with (
                conformance_lock.cordoned(site, base, steps.note) if chosen.deletes_servers else nullcontext()
            ):
                code, tally = _tests(wanted, steps, lock)
        except (KeyboardInterrupt, SystemExit):
            _remove_namespaces(site, base, steps)
            raise
    return _conclude(code, tally, folder, steps)


def require_version(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Make sure that the cluster runs the version that the tests are for: each version has its own tests."""
    has = sorted({node["status"]["nodeInfo"]["kubeletVersion"].removeprefix("v") for node in nodes})
    own = KUBERNETES_TESTS.version
    if {version.split("+")[0] for version in has} != {own}:
        raise SandboxError(f"the tests are for Kubernetes {own}, but this cluster runs {', '.join(has)}")


def _chosen(arguments: argparse.Namespace) -> Selection:
    if arguments.focus:
        return selection.focused(arguments.focus)
    if arguments.node_deletion:
        return selection.DELETION
    return selection.ALL if arguments.all else selection.DEFAULT


def _bring_images(site: Site, base: Toolchain, programs: Toolchain, steps: Steps, *, large: bool) -> Path:
    what = "Images of the tests" + (" of API servers" if large else "")
    with steps.step(what) as progress:
        path = images.ensure(site.cache, (programs.bin, base.bin), large=large, progress=progress)
    airgap = Airgap(site.state)
    with airgap.loading(lambda: steps.note(load.WAITS)):
        contents = archive.read(path, airgap.scratch)
        nodes = cluster.get(site, base, "nodes")
        # kubelet writes null for the names of an image that it has no name for
        listed = [node["status"].get("images") or [] for node in nodes]
        on_nodes = [{name for image in images for name in image["names"] or ()} for images in listed]
        if not all(set(contents.names) <= names for names in on_nodes):
            load.bring(site, path, contents, steps, what)
    return path


def _push_images(site: Site, common: Path, steps: Steps) -> None:
    with steps.step("Images that tests pull") as progress:
        crane = toolchain.ensure(site.cache, progress, [CRANE]).bin / "crane"
        images.bring(crane, common, site.address.registry)


def _remove_namespaces(site: Site, base: Toolchain, steps: Steps) -> None:
    """Remove what killed tests left."""
    chosen = f"--selector={tests.LABEL}"
    if not cluster.get(site, base, "namespaces", chosen):
        return
    with steps.step("Namespaces of earlier tests removed"):
        command = ["delete", "namespaces", chosen, "--wait=true", f"--timeout={_CLEAN_SECONDS}s"]
        cluster.ask(site, base, command, "can't delete old namespaces of tests", seconds=_CLEAN_SECONDS)


def _tests(wanted: tests.Run, steps: Steps, lock: int) -> tuple[int, Tally]:
    def ended(result: Result) -> None:
        mark = "✗" if result.failed else "•" if result.state == report.SKIPPED else "✓"
        steps.note(f"  {mark} {result.name} ({result.seconds:.1f} s)")

    with steps.step("Tests") as progress:
        return tests.execute(wanted, lambda text: progress(f"run: {text}"), ended, lock)


def _conclude(code: int, tally: Tally, folder: Path, steps: Steps) -> int:
    if not tally.results and not code:
        raise SandboxError("no test has a name that matches; see './dev conformance --help'")
    if not tally.results:
        tail = "\n".join((folder / tests.LOG).read_text(errors="replace").splitlines()[-15:])
        raise SandboxError(f"no test ran (exit code {code}); {folder / tests.LOG} ends with:\n{tail}")
    steps.note("\n" + report.table(tally.results))
    parts = {"Skipped": report.reasons(tally.results), "Failed": report.failures(tally.results)}
    for title, lines in parts.items():
        if listed := [*lines]:
            steps.note(f"\n{title}:\n" + "\n".join(listed))
    steps.note(f"\nlog: {folder / tests.LOG}; results: {folder / tests.JUNIT}, {folder / tests.JSON}")
    failed = sum(result.failed for result in tally.results)
    if len(tally.results) != tally.total or (code and not failed):
        raise SandboxError(
            f"ginkgo ended with exit code {code} after {len(tally.results)} of {tally.total} tests; "
            f"see {folder / tests.LOG}"
        )
    return 1 if failed else 0
