"""A small client of S3 for snapshots, on the standard library.

Requests have AWS's Signature Version 4 in the header Authorization. The bucket is part of the path, as in k3s
for endpoints other than Amazon's.
"""

import hashlib
import hmac
import http.client
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

from k3s_standin.errors import StatusError

_NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_EMPTY = hashlib.sha256(b"").hexdigest()


class S3Error(StatusError):
    """The store refused, or could not be reached."""


@dataclass(frozen=True)
class S3Options:
    """Second place of snapshots; the fields are k3s's flags ``--etcd-s3-…``."""

    bucket: str
    access_key: str
    secret_key: str = field(repr=False)
    endpoint: str = "s3.amazonaws.com"
    region: str = "us-east-1"
    folder: str = ""
    insecure: bool = False
    skip_verify: bool = False
    authority: str = ""
    retention: int = 5
    timeout: float = 300.0


@dataclass(frozen=True)
class S3Object:
    """An object in a bucket."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Request:
    """A request to sign."""

    method: str  # of HTTP
    path: str  # encoded, from the root
    query: Mapping[str, str]  # its parameters, plain
    headers: Mapping[str, str]  # by lower-case name; ``host`` and ``x-amz-date`` among them
    digest: str  # SHA-256 of the body, in hexadecimal digits


def query_string(query: Mapping[str, str]) -> str:
    """Parameters in AWS's canonical form."""
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))


def authorization(request: Request, access_key: str, secret_key: str, region: str) -> str:
    """The Authorization header."""
    moment = request.headers["x-amz-date"]
    names = sorted(request.headers)
    canonical = "\n".join(
        [
            request.method,
            request.path,
            query_string(request.query),
            *(f"{name}:{request.headers[name].strip()}" for name in names),
            "",
            ";".join(names),
            request.digest,
        ]
    )
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{digest}"
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return (
        f"AWS4-HMAC-SHA256 Credential={access_key}/{scope},SignedHeaders={';'.join(names)},"
        f"Signature={signature}"
    )


def read_listing(content: bytes) -> tuple[list[S3Object], str]:
    """A page of a list, and the token of the next one."""
    try:
        root = ET.fromstring(content)  # noqa: S314 -- the store has the cluster's keys, so it is trusted
        objects = [
            S3Object(
                item.findtext(f"{_NAMESPACE}Key", ""),
                int(item.findtext(f"{_NAMESPACE}Size", "0")),
                datetime.fromisoformat(item.findtext(f"{_NAMESPACE}LastModified", "")),
            )
            for item in root.iter(f"{_NAMESPACE}Contents")
        ]
    except (ET.ParseError, ValueError) as error:
        raise S3Error(0, f"the response of the S3 server isn't a list of objects: {error}") from None
    return objects, root.findtext(f"{_NAMESPACE}NextContinuationToken", "")


class S3:
    """The objects of one folder in one bucket."""

    def __init__(self, options: S3Options, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Sends nothing."""
        self.options = options
        self._now = now

    def check(self) -> None:
        """Check that the bucket exists; raises S3Error."""
        try:
            self._send("HEAD", "")
        except S3Error as error:
            if error.status == 404:
                raise S3Error(404, f"bucket {self.options.bucket} does not exist") from error
            what = f"failed to test for existence of bucket {self.options.bucket}"
            raise S3Error(error.status, f"{what}: {error}") from error

    def key(self, name: str) -> str:
        """The key of an object in the folder."""
        return "/".join(part for part in (self.options.folder.strip("/"), name) if part)

    def location(self, key: str) -> str:
        """k3s's name of an object's place."""
        return f"s3://{self.options.bucket}/{key}"

    def objects(self) -> Iterator[S3Object]:
        """The objects directly in the folder."""
        prefix = self.key("")
        prefix = f"{prefix}/" if prefix else ""
        query = {"list-type": "2", "prefix": prefix, "delimiter": "/"}
        while True:
            found, following = read_listing(self._send("GET", "", query))
            yield from (one for one in found if one.size)
            if not following:
                return
            query["continuation-token"] = following

    def put(self, name: str, content: bytes) -> None:
        """Write an object."""
        self._send("PUT", self.key(name), content=content)

    def get(self, name: str) -> bytes:
        """Read an object."""
        return self._send("GET", self.key(name))

    def delete(self, name: str) -> bool:
        """Delete an object; False if it doesn't exist."""
        try:
            self._send("HEAD", self.key(name))
        except S3Error as error:
            if error.status == 404:
                return False
            raise
        self._send("DELETE", self.key(name))
        return True

    def _send(
        self, method: str, key: str, query: Mapping[str, str] | None = None, content: bytes = b""
    ) -> bytes:
        options = self.options
        path = f"/{quote(options.bucket)}/{quote(key, safe='/-_.~')}"
        digest = hashlib.sha256(content).hexdigest() if content else _EMPTY
        headers = {
            "host": options.endpoint,
            "x-amz-content-sha256": digest,
            "x-amz-date": self._now().strftime("%Y%m%dT%H%M%SZ"),
        }
        request = Request(method, path, query or {}, headers, digest)
        signed = authorization(request, options.access_key, options.secret_key, options.region)
        target = f"{path}?{query_string(query)}" if query else path
        connection = self._connection()
        try:
            connection.request(method, target, content or None, {**headers, "Authorization": signed})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise S3Error(0, f"{method} {options.endpoint}{path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            said = body.decode(errors="replace")[:300]
            raise S3Error(answer.status, f"{method} {options.endpoint}{path}: {answer.status} {said}".strip())
        return body

    def _connection(self) -> http.client.HTTPConnection:
        options = self.options
        if options.insecure:
            return http.client.HTTPConnection(options.endpoint, timeout=options.timeout)
        context = ssl.create_default_context()
        if options.skip_verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        elif options.authority:
            context.load_verify_locations(_existing(options.authority))
        return http.client.HTTPSConnection(options.endpoint, timeout=options.timeout, context=context)


def _existing(file: str) -> Path:
    if not Path(file).is_file():
        raise S3Error(0, f"--etcd-s3-endpoint-ca {file}: no such file")
    return Path(file)
