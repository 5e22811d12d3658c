"""Puts images into a registry, by the OCI distribution protocol.

https://github.com/opencontainers/distribution-spec/blob/main/spec.md and, for tokens,
https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import parse_dict_header

from image.credentials import Credentials
from image.errors import RegistryError
from image.oci import Blob

_CONNECT_SECONDS, _ANSWER_SECONDS = 10.0, 300.0
_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_TRY_AGAIN = (429, 500, 502, 503, 504)
_ACCEPTED, _CREATED, _OK, _UNAUTHORIZED, _NOT_FOUND = 202, 201, 200, 401, 404
_ELSEWHERE = (301, 302, 303, 307, 308)
"""Where a registry keeps layers in another store, it leads there for those that it has, and only for those:
https://github.com/distribution/distribution/issues/3691."""

_LONGEST_MESSAGE = 300
_TARGET = re.compile(
    r"(?P<registry>[\w.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/"
    r"(?P<name>[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r":(?P<tag>\w[\w.-]{0,127})",
    re.ASCII,
)
_ADDRESSES = {"docker.io": "registry-1.docker.io"}


@dataclass(frozen=True)
class Target:
    """Where an image goes.

    Attributes:
        registry: Host, and port if it is not the usual one.
        name: Of the repository in it.
        tag: What people call this image.
    """

    registry: str
    name: str
    tag: str

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}:{self.tag}"

    @property
    def root(self) -> str:
        """Address of the repository. Without TLS only on this machine itself."""
        host = _ADDRESSES.get(self.registry, self.registry)
        scheme = "http" if _is_this_machine(urlsplit(f"//{host}").hostname) else "https"
        return f"{scheme}://{host}/v2/{self.name}"


def parse_target(text: str) -> Target:
    """Reads ``REGISTRY/NAME:TAG``.

    Raises:
        RegistryError: It is something else.
    """
    found = _TARGET.fullmatch(text)
    if not found or not re.search(r"[.:]|^localhost$", found["registry"]):
        raise RegistryError(
            repr(text), "is no REGISTRY/NAME:TAG, such as registry.example.com/me/ccm-from-scratch:1.0"
        )
    return Target(found["registry"], found["name"], found["tag"])


class Registry:
    """One repository of a registry.

    Args:
        target: Which.
        credentials: Who we are; None where nobody has logged in.
        sleep: Pauses between attempts.
    """

    def __init__(
        self,
        target: Target,
        credentials: Credentials | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._target = target
        self._credentials = credentials
        self._sleep = sleep
        self._session = requests.Session()
        self._auth: AuthBase = _Nobody()

    def push(self, top: Blob, manifests: Iterable[Blob], blobs: Iterable[Blob]) -> int:
        """Uploads what the repository lacks, and names the index. Again after a failure: it goes on.

        Args:
            top: The index.
            manifests: What it names.
            blobs: What those name.

        Returns:
            How many blobs were sent; the others were there.

        Raises:
            RegistryError: The registry refused, or did not answer.
        """
        sent = sum(self._upload(blob) for blob in {blob.digest: blob for blob in blobs}.values())
        for manifest in manifests:
            self._put_manifest(manifest, manifest.digest)
        self._put_manifest(top, self._target.tag)
        return sent

    def _upload(self, blob: Blob) -> bool:
        there = self._send("HEAD", f"{self._target.root}/blobs/{blob.digest}")
        if there.status_code in {_OK, *_ELSEWHERE}:
            return False
        if there.status_code != _NOT_FOUND:
            raise self._refusal(there, "to look for a layer")
        begun = self._send("POST", f"{self._target.root}/blobs/uploads/")
        if begun.status_code != _ACCEPTED or "Location" not in begun.headers:
            raise self._refusal(begun, "to upload")
        place = urljoin(begun.url, self._address(begun.headers["Location"]))
        if not _is_safe(place):
            where = urlsplit(place)._replace(query="").geturl()
            raise RegistryError(self._target.registry, f"wants layers sent without TLS, to {where!r}")
        done = self._send(
            "PUT",
            f"{place}{'&' if urlsplit(place).query else '?'}digest={blob.digest}",
            data=blob.content,
            headers={"Content-Type": "application/octet-stream"},
        )
        if done.status_code != _CREATED:
            raise self._refusal(done, "a layer")
        return True

    def _put_manifest(self, manifest: Blob, reference: str) -> None:
        answer = self._send(
            "PUT",
            f"{self._target.root}/manifests/{reference}",
            data=manifest.content,
            headers={"Content-Type": manifest.media_type},
        )
        if answer.status_code != _CREATED:
            raise self._refusal(answer, "a manifest")

    def _send(self, method: str, address: str, **content: Any) -> requests.Response:
        """Sends a request, again after short troubles; after a challenge with what it asks for."""
        challenged = False
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                answer = self._ask(method, address, auth=self._auth, **content)
            except requests.RequestException as error:
                if attempt == _ATTEMPTS:
                    what = f"did not answer {method} {urlsplit(address).path}: {error}"
                    raise RegistryError(self._target.registry, what) from error
                self._sleep(2.0**attempt / 4)
                continue
            if answer.status_code == _UNAUTHORIZED and not challenged:
                challenged = True
                self._auth = self._answer_to(answer.headers.get("WWW-Authenticate", ""))
            elif answer.status_code in _TRY_AGAIN and attempt < _ATTEMPTS:
                self._sleep(_pause(answer.headers.get("Retry-After", ""), attempt))
            else:
                return answer
        return answer

    def _ask(self, method: str, address: str, **options: Any) -> requests.Response:
        seconds = (_CONNECT_SECONDS, _ANSWER_SECONDS)
        # only this machine is asked without TLS, and a proxy that the environment names is another one
        direct = {"http": ""}
        return self._session.request(
            method, address, timeout=seconds, allow_redirects=False, proxies=direct, **options
        )

    def _answer_to(self, challenge: str) -> AuthBase:
        scheme, _, text = challenge.partition(" ")
        if scheme.lower() == "basic":
            if self._credentials is None:
                raise self._nobody()
            header = requests.Request("GET", self._target.root)
            prepared = HTTPBasicAuth(self._credentials.username, self._credentials.password)(header.prepare())
            return _Header(_origin(self._target.root), str(prepared.headers["Authorization"]))
        if scheme.lower() != "bearer":
            raise RegistryError(
                self._target.registry, f"asks for a way to log in that is unknown: {scheme!r}"
            )
        return _Header(_origin(self._target.root), f"Bearer {self._token(parse_dict_header(text))}")

    def _token(self, challenge: Mapping[str, str | None]) -> str:
        realm = self._address(challenge.get("realm") or "")
        if not _is_safe(realm):
            raise RegistryError(self._target.registry, f"wants passwords sent without TLS, to {realm!r}")
        scope = challenge.get("scope") or f"repository:{self._target.name}:pull,push"
        query = {"service": challenge.get("service") or "", "scope": scope}
        mine = self._credentials
        try:
            if mine and not mine.username:
                form = {"grant_type": "refresh_token", "refresh_token": mine.password, "client_id": "ccmfs"}
                answer = self._ask("POST", realm, data={**query, **form}, auth=_Nobody())
            else:
                auth = HTTPBasicAuth(mine.username, mine.password) if mine else _Nobody()
                answer = self._ask("GET", realm, params=query, auth=auth)
            content = answer.json() if answer.status_code == _OK else None
        except requests.RequestException as error:
            what = f"names {realm} to log in, which did not answer: {error}"
            raise RegistryError(self._target.registry, what) from error
        given = content if isinstance(content, dict) else {}
        token = given.get("token") or given.get("access_token")
        if not token:
            raise self._refusal(answer, "to log in") if mine else self._nobody()
        return token

    def _address(self, text: str) -> str:
        """An address that the registry names, if it is one; it may be relative."""
        try:
            urlsplit(text)
        except ValueError as error:
            raise RegistryError(self._target.registry, f"names an address that is none: {text!r}") from error
        return text

    def _nobody(self) -> RegistryError:
        return RegistryError(
            self._target.registry,
            "wants to know who you are: type 'docker login', or set CCMFS_REGISTRY_USERNAME and "
            "CCMFS_REGISTRY_PASSWORD",
            _UNAUTHORIZED,
        )

    def _refusal(self, answer: requests.Response, what: str) -> RegistryError:
        return RegistryError(
            self._target.registry,
            f"refused {what} for {self._target.name} with HTTP {answer.status_code}{_message(answer)}",
            answer.status_code,
        )


class _Nobody(AuthBase):
    """No header, and no look into ~/.netrc, which requests would take otherwise."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


@dataclass(frozen=True)
class _Header(AuthBase):
    """A header for one scheme and host: a registry may send uploads to a stranger's."""

    origin: tuple[str, str]
    value: str

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if _origin(request.url or "") == self.origin:
            request.headers["Authorization"] = self.value
        return request


def _pause(retry_after: str, attempt: int) -> float:
    return min(float(retry_after), _LONGEST_PAUSE) if retry_after.isdigit() else 2.0**attempt / 4


def _message(answer: requests.Response) -> str:
    """What a registry says of an error, if it says it in the way of the protocol."""
    try:
        errors = answer.json()["errors"]
        said = "; ".join(f"{error['code']}: {error.get('message', '')}" for error in errors)
    except (ValueError, KeyError, TypeError):
        said = answer.reason or ""
    return f": {said[:_LONGEST_MESSAGE]}" if said else ""


def _origin(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


def _is_safe(address: str) -> bool:
    """Whether what is sent there has TLS, or stays on this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname))


def _is_this_machine(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host or "").is_loopback
    except ValueError:
        return False
