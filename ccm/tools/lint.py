"""``python -m ccm lint FILE ...``: checks the annotations of Services in manifests, offline.

``lint`` uses the CCM's parser, so the CCM accepts what ``lint`` accepts. Locations, zones and types are
compared with :data:`_OFFERED`, which may be outdated. Only the cloud knows certificates and networks, so
``plan`` checks these, and ``lint`` doesn't.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from ccm.controllers.service.syncer import view_of
from ccm.hetzner.load_balancers import hccm_comparison
from ccm.hetzner.load_balancers.service_annotations import PREFIX
from ccm.hetzner.load_balancers.spec import PRIMARY_IP_KEY, read
from ccm.hetzner.load_balancers.truncation import MAX_SHOWN_LENGTH, shown
from ccm.hetzner.settings import environment
from ccm.kube.objects import Service, decode_object
from ccm.output import FAILED, MISUSED, OK, print_errors

_USAGE = """Checks the annotations of Services in manifests, without a cluster.

Usage:
  python -m ccm lint [--for=official] FILE [FILE ...]     (- reads standard input)

  --for=official   also prints the annotations that the official CCM (v1.39.0) can't read or would treat
                   differently

To check the Services of a cluster: kubectl get services -A -o yaml | python -m ccm lint -
The exit code is 0 if there are no mistakes, 1 if there are mistakes, and 2 if a file can't be read.
"""
_FOR = "--for="


class Unreadable(Exception):
    """A file isn't a manifest."""


def lint(
    name: str, text: str, *, for_official: bool = False, users: dict[str, str] | None = None
) -> tuple[int, list[str]]:
    """Check a file of YAML or JSON; returns the number of its Services of type LoadBalancer, and problems.

    Adds to ``users``, which contains the user of each Primary IP. Problems contain the possible correction.
    Raises Unreadable if the file is neither YAML nor JSON.
    """
    try:
        documents = list(yaml.safe_load_all(text))
    except RecursionError as error:
        raise Unreadable(f"{name}: lists or mappings are nested too deeply") from error
    except (LookupError, AttributeError) as error:  # PyYAML's own, as for ``!!bool perhaps``
        raise Unreadable(
            f"{name}: this is not YAML: a tag, such as !!bool, doesn't match the value that follows the tag"
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        # The parser's message contains the line, and a caret below the mistake.
        where = str(error).replace('"<unicode string>"', f'"{name}"')
        hint = "; render a chart's template first: helm template" if "{{" in text else ""
        raise Unreadable(f"{name}: this is not YAML: {where}{hint}") from error
    users = {} if users is None else users
    number, findings = 0, list[str]()
    for item in _objects(documents):
        if item.get("kind") != "Service":
            continue
        metadata = _part(item, "metadata")
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        place = f"{name}: service {namespace}{metadata.get('name', '?')}"
        service, mistakes = _decode(item)
        if service.spec.type == "LoadBalancer" or mistakes:
            number += service.spec.type == "LoadBalancer"
            found = [*mistakes, *_problems(service, for_official=for_official), *_taken(service, users)]
            findings += [f"{place}: {finding}" for finding in found]
    return number, findings


def _decode(item: Mapping[str, Any]) -> tuple[Service, list[str]]:
    """The decodable part of a Service, and the mistakes in the rest."""
    annotations, mistakes = _texts(_part(item, "metadata").get("annotations"))
    whole = {**item, "metadata": {**_part(item, "metadata"), "annotations": annotations}}
    try:
        return decode_object(whole, Service), mistakes
    except msgspec.ValidationError as error:
        mistakes.append(str(error))
    # Other mistakes don't affect the annotations.
    spec = {"type": "LoadBalancer" if _part(item, "spec").get("type") == "LoadBalancer" else "ClusterIP"}
    return decode_object({"metadata": {"annotations": annotations}, "spec": spec}, Service), mistakes


def _texts(annotations: object) -> tuple[dict[str, str], list[str]]:
    """Annotations as probably intended texts, and mistakes that the API server would refuse."""
    texts, mistakes = dict[str, str](), list[str]()
    if not isinstance(annotations, dict):
        return texts, mistakes if annotations is None else ["metadata.annotations isn't a mapping of strings"]
    for key, value in cast("dict[object, object]", annotations).items():
        if value is not None and not isinstance(value, str):
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            mistakes.append(f"{key}: {shown} isn't a string: put it in quotes, {shown[:80]!r}")
            texts[str(key)] = shown
        else:
            texts[str(key)] = value or ""
    return texts, mistakes


def _part(item: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = item.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}


def _problems(service: Service, *, for_official: bool) -> Iterator[str]:
    # In a file, ports have no node ports yet; the cluster assigns them.
    view = view_of(service)
    ports = tuple(replace(port, node_port=port.node_port or 1) for port in view.ports)
    view = replace(view, ports=ports)
    yield from _misspelt_prefixes(view.annotations)
    if service.spec.type != "LoadBalancer":
        return
    spec = read(view, _NO_DEFAULTS, network=True)
    yield from spec.problems.values()
    yield from spec.warnings.values()
    yield from spec.primary_ip_problems().values()
    if why := spec.why_no_address(network=True):
        yield why
    yield from _unknown(view.annotations)
    yield from (notice.message for notice in spec.unsupported if notice.warning)
    for port in ports:
        asked = spec.ports.get(port.port)
        if asked is None or port.protocol != "TCP" or asked.protocol != "https":
            continue
        if not (asked.certificates.uploaded or asked.certificates.domains):
            yield f"port {port.port} has protocol https and no certificate: set http-certificates"
    if for_official:
        differences = hccm_comparison.compare_with_hccm(view, _NO_DEFAULTS, network=True)
        yield from (f"under the official CCM: {difference}" for difference in differences)


def _taken(service: Service, users: dict[str, str]) -> Iterator[str]:
    """Report a Primary IP that several load balancers request; Services may share a load balancer."""
    annotations = service.metadata.annotations
    owner = annotations.get(f"{PREFIX}share", "").strip() or f"service {service.metadata.name}"
    for family in ("ipv4", "ipv6"):
        key = PRIMARY_IP_KEY.format(family)
        reference = annotations.get(key, "").strip()
        other = users.setdefault(reference, owner) if reference else owner
        if other != owner:
            yield f"{key}: {shown(reference)} is already assigned to the load balancer of {other}"


def _misspelt_prefixes(annotations: Iterable[str]) -> Iterator[str]:
    """Report prefixes that are probably misspelled forms of ours."""
    for name in annotations:
        prefix, slash, key = name.partition("/")
        # Finds load-balancer.hetzner.com and loadbalancer.hetzner.cloud, but no other providers' prefixes.
        alike = difflib.SequenceMatcher(None, prefix.lower() + "/", PREFIX).ratio() > _ALIKE
        if slash and alike and prefix + "/" != PREFIX:
            yield (
                f"{name}: no known program uses the prefix {prefix + slash!r}; did you mean {PREFIX + key!r}?"
            )


def _unknown(annotations: Mapping[str, str]) -> Iterator[str]:
    """Report locations, zones and types that aren't in :data:`_OFFERED`: probably spelling mistakes."""
    for key, known in _OFFERED.items():
        value = annotations.get(PREFIX + key, "").strip()
        if value and value.lower() not in known:
            guess = difflib.get_close_matches(value.lower()[:MAX_SHOWN_LENGTH], known, n=1)
            hint = f"; did you mean {guess[0]!r}?" if guess else ""
            yield (
                f"{PREFIX}{key}: {shown(value)} isn't known to this version of lint "
                f"({', '.join(known)}){hint}"
            )


_ALIKE = 0.85
# https://docs.hetzner.cloud/reference/cloud, as of August 2026.
_OFFERED = {
    "location": ("ash", "fsn1", "hel1", "hil", "nbg1", "sin"),
    "network-zone": ("ap-southeast", "eu-central", "us-east", "us-west"),
    "type": ("lb11", "lb21", "lb31"),
}


def _objects(documents: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """The objects of a file, those in a List too."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        item = cast("dict[str, Any]", document)
        entries = item.get("items")
        if str(item.get("kind", "")).endswith("List") and isinstance(entries, list):
            yield from _objects(cast("list[object]", entries))
        else:
            yield item


_NO_DEFAULTS = environment.read({"HCLOUD_TOKEN": "0" * environment.TOKEN_LENGTH}).load_balancers


def main(arguments: Sequence[str] | None = None) -> int:
    """The command, with names of files and options; returns the exit code."""
    given = list(sys.argv[2:] if arguments is None else arguments)
    if any(word in ("-h", "--help") for word in given):
        print(_USAGE, end="")
        return OK
    options = [word for word in given if word.startswith("-") and word != "-"]
    files = [word for word in given if word not in options]
    wrong = [word for word in options if word != _FOR + hccm_comparison.NAME]
    if wrong:
        return print_errors([f"lint: {wrong[0]!r} is not {_FOR}{hccm_comparison.NAME}"])
    if not files:
        print(_USAGE, end="", file=sys.stderr)
        return MISUSED
    return _lint_all(files, for_official=bool(options))


def _lint_all(files: Sequence[str], *, for_official: bool) -> int:
    """Check every file, even if another file can't be read."""
    services, findings, unreadable = 0, list[str](), list[Unreadable]()
    users: dict[str, str] = {}
    for name in files:
        try:
            number, found = lint(name, _content(name), for_official=for_official, users=users)
        except Unreadable as error:
            unreadable.append(error)
        else:
            services += number
            findings += found
    for finding in findings:
        print(finding)
    if len(unreadable) < len(files):
        print(f"{_counted(services, 'Service')} of type LoadBalancer, {_counted(len(findings), 'finding')}")
    if unreadable:
        return print_errors(unreadable)
    return FAILED if findings else OK


def _content(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except IsADirectoryError as error:
        raise Unreadable(f"{name}: this is a directory. Give its files, such as {name}/*.yaml") from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Unreadable(f"{name}: can't be read: {why}") from error


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
