"""Proxies and certificate authorities from the environment, for the Cloud API, Robot and traces.

As in Go's ``net/http`` and ``crypto/x509`` (Go 1.26), so that variables for the official CCM work here too:

- HTTPS_PROXY applies to https, HTTP_PROXY to http. NO_PROXY has names, addresses, ranges and ports. The
  variables may be in lower case. ALL_PROXY is ignored. Requests to the loopback never use a proxy.
- SSL_CERT_FILE replaces the system's file of authorities. SSL_CERT_DIR (folders, with ":" between them)
  replaces the system's folders. Every file in a folder is read, whatever its name.

REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE, which Python programs use, names a file or a folder. It replaces the
system's file and folders. SSL_CERT_FILE and SSL_CERT_DIR then add their authorities.
"""

import os
import ssl
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import certifi
import requests
import structlog
from requests.adapters import HTTPAdapter
from urllib3.util.ssl_ import create_urllib3_context

# crypto/x509/root_linux.go
_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_FOLDERS = ("/etc/ssl/certs", "/etc/pki/tls/certs")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PORTS = {"http": 80, "https": 443}

log = structlog.stdlib.get_logger(__name__)


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy for requests to an address, as Go's ``httpproxy`` chooses it; None = none."""
    parts = urlsplit(url)
    proxy = _variable(environment, f"{parts.scheme}_proxy") if parts.scheme in _PORTS else ""
    if not proxy or (parts.scheme == "http" and environment.get("REQUEST_METHOD")):
        return None
    host, port = (parts.hostname or "").lower(), parts.port or _PORTS[parts.scheme]
    if _is_excepted(host, port, _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for text in exceptions.lower().split(","):
        rule = text.strip()
        if rule == "*" or (rule and _matches(rule, host, address, port)):
            return True
    return False


def _matches(rule: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    if "/" in rule:
        try:
            inside = address is not None and address in ip_network(rule, strict=False)
        except ValueError:
            return False
        return inside and rule.rpartition("/")[2].isdigit()
    name, wanted = _split_port(rule)
    if wanted not in {"", str(port)}:
        return False
    if (only := _address(name)) is not None:
        return only == address
    if name.startswith("*."):
        name = name[1:]
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(rule: str) -> tuple[str, str]:
    name, colon, port = rule.rpartition(":")
    if colon and name.startswith("[") and name.endswith("]"):
        return name[1:-1], port
    return (name, port) if colon and ":" not in name else (rule, "")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


class Trust:
    """The authorities that the environment names, read once and not for each connection.

    Otherwise, ``urllib3`` would create a context for every connection, also after the API closed an idle one.
    Each context would read 140 certificates, and need 20 ms of CPU and more than half a MiB. If a file or
    folder changes, new connections use the new content.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._lock = Lock()
        self._known: dict[tuple[str, ...], tuple[list[int], ssl.SSLContext]] = {}

    def context(self, named: str = "") -> ssl.SSLContext:
        """TLS with the authorities of ``named`` (a file or folder) or of the environment; raises OSError."""
        sources = (named,) if named else self._sources()
        try:
            changed = [Path(source).stat().st_mtime_ns for source in sources]
            with self._lock:
                known = self._known.get(sources)
                if known is None or known[0] != changed:
                    known = self._known[sources] = changed, _context(sources)
                return known[1]
        except OSError as error:  # ssl.SSLError is one
            log.warning("authorities_unusable", files=sources, error=str(error))
            raise

    def is_from_environment(self, named: str) -> bool:
        """Whether a variable for Python programs names this file or folder."""
        return named in {self._environment.get(name) for name in _BUNDLES}

    def _sources(self) -> tuple[str, ...]:
        """The files and folders to read, files first."""
        get = self._environment.get
        bundle, file = get(_BUNDLES[0]) or get(_BUNDLES[1]), get("SSL_CERT_FILE")
        folders = [one for one in (get("SSL_CERT_DIR") or "").split(":") if one]
        if not bundle:
            file = file or next((path for path in _FILES if Path(path).is_file()), certifi.where())
            folders = folders or list(_FOLDERS)
        files = [file_name for file_name in (bundle, file) if file_name]
        return (*files, *(folder for folder in folders if Path(folder).is_dir()))


def _context(sources: tuple[str, ...]) -> ssl.SSLContext:
    context = create_urllib3_context()
    folders = [Path(source) for source in sources if Path(source).is_dir()]
    known = ""
    for file in (Path(source) for source in sources if not Path(source).is_dir()):
        context.load_verify_locations(file)
        known += file.read_text(encoding="ascii", errors="ignore")
    for text in (text for folder in folders for text in _in_folder(folder)):
        if text.strip() in known:
            continue  # Debian's folder also has each certificate of its bundle
        try:
            context.load_verify_locations(cadata=text)
        except ssl.SSLError:
            continue  # not a certificate: Go skips it, too
    return context


def _in_folder(folder: Path) -> Iterator[str]:
    """The texts of the files in a folder; excludes links to neighbors, like OpenSSL's links by hash."""
    for path in sorted(folder.iterdir()):
        beside = path.is_symlink() and "/" not in str(path.readlink())
        if beside or not path.is_file():
            continue
        try:
            yield path.read_text(encoding="ascii", errors="ignore")
        except OSError as error:
            log.info("authority_unreadable", file=str(path), error=str(error))


class EnvironmentAdapter(HTTPAdapter):
    """Sends requests through the environment's proxies, and trusts the environment's authorities."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._trust = Trust(environment)
        super().__init__()

    def send(  # noqa: PLR0917 - as the base class
        self,
        request: requests.PreparedRequest,
        stream: bool = False,  # noqa: FBT001, FBT002 - the base class has it so, here and below
        timeout: Any = None,
        verify: bool | str = True,  # noqa: FBT001, FBT002
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,  # noqa: ARG002 - requests' own reading of the environment
    ) -> requests.Response:
        """Send a request; see the base class. Raises requests.RequestException."""
        url = request.url or ""
        proxy = proxy_for(url, self._environment)
        chosen = {urlsplit(url).scheme: proxy} if proxy else {}
        return super().send(request, stream, timeout, verify, cert, chosen)

    def build_connection_pool_key_attributes(
        self,
        request: requests.PreparedRequest,
        verify: bool | str,  # noqa: FBT001
        cert: Any = None,
    ) -> tuple[Any, Any]:
        """The connection's parameters, with an SSL context instead of files. Raises requests.SSLError."""
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        if verify and host["scheme"] == "https":
            pool.pop("ca_certs", None)
            pool.pop("ca_cert_dir", None)
            by_caller = isinstance(verify, str) and not self._trust.is_from_environment(verify)
            pool["ssl_context"] = self._context(verify if by_caller else "")
        return host, pool

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """The connections to a proxy, which trust the same authorities. Raises requests.SSLError."""
        if proxy.lower().startswith("https:"):
            proxy_kwargs["proxy_ssl_context"] = self._context()
        return super().proxy_manager_for(proxy, **proxy_kwargs)

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:  # noqa: FBT001
        """Do nothing: connections have their context, and need no files."""

    def _context(self, named: str = "") -> ssl.SSLContext:
        try:
            return self._trust.context(named)
        except OSError as error:
            raise requests.exceptions.SSLError(str(error)) from error
