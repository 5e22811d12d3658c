"""What is asked for single ports. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

STATUS_CODES = ("2??", "3??")


@dataclass(frozen=True, slots=True)
class CheckWishes:
    """A health check; times in seconds.

    Attributes:
        port: None = the port that traffic goes to.
        chosen: Whether the owner said what to ask, and not only when.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    port: int | None = None
    interval: int = 15
    timeout: int = 10
    retries: int = 3
    domain: str = ""
    path: str = "/"
    status_codes: tuple[str, ...] = STATUS_CODES
    tls: bool = False
    chosen: bool = True
    asked: frozenset[str] = field(default=frozenset(), compare=False)


@dataclass(frozen=True, slots=True)
class CertificateWishes:
    """Which certificates a port gets: uploaded ones by id or name, or one that is managed for domains.

    Attributes:
        kept: Ids of those that somebody gave a port of which no annotation says anything.
    """

    uploaded: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name: str = ""
    staging: bool = False
    kept: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PortWishes:
    """One port; times in seconds.

    Attributes:
        check: None = nothing was said about it.
        asked: Names of the fields that are not defaults; says nothing about what is wanted.
    """

    protocol: str = "tcp"
    proxyprotocol: bool = False
    cookie_name: str = "HCLBSTICKY"
    cookie_lifetime: int = 300
    timeout_idle: int = 50
    sticky_sessions: bool = False
    redirect_http: bool = False
    certificates: CertificateWishes = field(default_factory=CertificateWishes)
    check: CheckWishes | None = None
    asked: frozenset[str] = field(default=frozenset(), compare=False)
