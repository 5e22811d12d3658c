"""What the cloud offers now: locations, server types and where there is room for them, images."""

from __future__ import annotations

import difflib
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from infra.errors import CloudError, ConfigurationError, Problem
from infra.settings import Settings, key_of

REAL_ENDPOINT = "https://api.hetzner.cloud/v1"
TOKEN_KEY = "hcloud:token"  # noqa: S105 (the name of a key, not a token)
TOKEN_LENGTH = 64
_TIMEOUT = 10.0

Fetch = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Catalogue:
    """What can be had.

    Attributes:
        zones: network zone of each location.
        server_types: per server type the locations where it can be had now; None where the API doesn't say.
        images: names of the system images for x86.
        arm: names of the server types with ARM processors.
    """

    zones: Mapping[str, str]
    server_types: Mapping[str, Mapping[str, bool]]
    images: frozenset[str]
    arm: frozenset[str] = frozenset()


def check_token(token: str | None) -> None:
    """Refuses what can't be a token, before it is sent anywhere.

    Raises:
        ConfigurationError: without showing the token.
    """
    if not token:
        advice = "set it with: pulumi config set --secret hcloud:token, or in the environment as HCLOUD_TOKEN"
        raise ConfigurationError([Problem(TOKEN_KEY, None, advice)])
    if len(token) != TOKEN_LENGTH or not token.isascii() or not token.isalnum():
        allowed = f"a token of Hetzner Cloud has {TOKEN_LENGTH} letters and digits"
        raise ConfigurationError([Problem(TOKEN_KEY, f"(a text of {len(token)} characters)", allowed)])


def read_catalogue(fetch: Fetch) -> Catalogue:
    """Asks for the three lists at the same time."""
    with ThreadPoolExecutor(max_workers=3) as pool:
        locations, types, images = pool.map(
            lambda what: everything(fetch, *what),
            [("locations", ""), ("server_types", ""), ("images", "&type=system&architecture=x86")],
        )
    return Catalogue(
        zones={location["name"]: location["network_zone"] for location in locations},
        server_types={kind["name"]: _availability(kind) for kind in types},
        images=frozenset(image["name"] for image in images if image["name"]),
        arm=frozenset(kind["name"] for kind in types if kind.get("architecture") == "arm"),
    )


def catalogue_problems(settings: Settings, catalogue: Catalogue) -> list[Problem]:
    """What of the settings the cloud can't give."""
    zone = catalogue.zones.get(settings.location)
    problems = []
    if zone is None:
        problems.append(_unknown("location", settings.location, catalogue.zones))
    elif zone != settings.network_zone:
        problems.append(
            Problem(
                key_of("network_zone"), settings.network_zone, f"{settings.location} is in the zone {zone}"
            )
        )
    wanted = {"control_server_type": settings.control_server_type}
    if settings.worker_count:
        wanted["worker_server_type"] = settings.worker_server_type
    for field, name in wanted.items():
        problems += _type_problems(field, name, settings.location, catalogue)
    if settings.control_server_type in catalogue.arm and _image_is_built(settings):
        problems.append(_built_for_x86(settings, catalogue))
    # a number is the id of a snapshot, which the list of system images doesn't have
    if settings.image not in catalogue.images and not settings.image.isdigit():
        problems.append(_unknown("image", settings.image, catalogue.images))
    return problems


def everything(fetch: Fetch, resource: str, query: str) -> list[Mapping[str, Any]]:
    """All pages of a list."""
    items: list[Mapping[str, Any]] = []
    page: int | None = 1
    while page:
        answer = fetch(f"/{resource}?per_page=50&page={page}{query}")
        items += answer[resource]
        page = answer["meta"]["pagination"]["next_page"]
    return items


def fetcher(endpoint: str, token: str, timeout: float = _TIMEOUT) -> Fetch:
    """A GET of the API.

    Raises (when called):
        ConfigurationError: the token is not accepted.
        CloudError: anything else.
    """

    def fetch(path: str) -> Mapping[str, Any]:
        return call(endpoint, token, "GET", path, timeout)

    return fetch


def call(endpoint: str, token: str, method: str, path: str, timeout: float = _TIMEOUT) -> Mapping[str, Any]:
    """One call of the API; an empty answer is an empty mapping. Raises like `fetcher`."""
    if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
        raise CloudError(endpoint, "has no address that begins with https:// or http://")
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "ccm-from-scratch-infra"}
    request = urllib.request.Request(endpoint + path, method=method, headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:  # noqa: S310 (checked above)
            return json.loads(response.read() or b"{}")
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 401:
            problem = Problem(TOKEN_KEY, "(not shown)", f"{endpoint} does not accept this token")
            raise ConfigurationError([problem]) from error
        what = f"answered {method} {path} with {error.code} {error.reason}"
        raise CloudError(endpoint, what, error.code) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise CloudError(
            endpoint,
            f"could not be asked: {reason}. Is it up ('./dev up' starts the sandbox), and the right address "
            "(hcloud:endpoint, else HCLOUD_ENDPOINT)?",
        ) from error


def _availability(kind: Mapping[str, Any]) -> Mapping[str, bool]:
    return {place["name"]: place.get("available", True) for place in kind.get("locations", [])}


def _type_problems(field: str, name: str, location: str, catalogue: Catalogue) -> list[Problem]:
    places = catalogue.server_types.get(name)
    if places is None:
        return [_unknown(field, name, catalogue.server_types)]
    if location not in catalogue.zones or places.get(location, False):
        return []
    elsewhere = [place for place, free in places.items() if free]
    here = sorted(other for other, at in catalogue.server_types.items() if at.get(location))
    return [
        Problem(
            key_of(field),
            name,
            f"{location} has no room for it now; it can be had in {', '.join(elsewhere) or 'no location'}, "
            f"and {location} has {', '.join(here) or 'nothing'}",
        )
    ]


def _image_is_built(settings: Settings) -> bool:
    """Whether the CCM's image is built from this tree and put on the control server."""
    return not settings.ccm_image and not settings.kubeconfig_path


def _built_for_x86(settings: Settings, catalogue: Catalogue) -> Problem:
    others = sorted(
        name
        for name, places in catalogue.server_types.items()
        if places.get(settings.location) and name not in catalogue.arm
    )
    return Problem(
        key_of("control_server_type"),
        settings.control_server_type,
        "it has ARM processors, and the CCM's image that is built here is for x86; either build one with "
        f"ccm/Dockerfile, push it and set {key_of('ccm_image')} to its reference, or take one of "
        f"{', '.join(others) or 'another location'}",
    )


def _unknown(field: str, value: str, known: Sequence[str] | Mapping[str, Any] | frozenset[str]) -> Problem:
    names = sorted(known)
    near = difflib.get_close_matches(value, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}? " if near else ""
    return Problem(key_of(field), value, f"{hint}there are {', '.join(names)}")
