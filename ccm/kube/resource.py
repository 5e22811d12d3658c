"""What a path of the API means."""

from __future__ import annotations

from dataclasses import dataclass, replace

_WITH_STATUS = frozenset({"nodes", "services"})


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection (no name) or an object of the API.

    Attributes:
        group: ``api/v1`` or ``apis/GROUP/VERSION``.
        plural: Name of the kind in paths, like ``nodes``.
        namespace: Empty for objects of the cluster, and for a collection over all namespaces.
        name: Empty for a collection.
        subresource: ``status``, or empty.
    """

    group: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def main(self) -> Resource:
        """The object itself, without its subresource."""
        return replace(self, subresource="")

    @property
    def read_only_parts(self) -> tuple[str, ...]:
        """Parts of the object that a write to this endpoint does not change."""
        if self.plural not in _WITH_STATUS:
            return ()
        return ("spec",) if self.subresource == "status" else ("status",)

    def named(self, name: str) -> Resource:
        """The object of this name in this collection."""
        return replace(self, name=name)

    def contains(self, member: Resource) -> bool:
        """Whether an object belongs to this collection."""
        same_kind = (self.group, self.plural) == (member.group, member.plural)
        return same_kind and self.namespace in ("", member.namespace)


def parse(path: str) -> Resource:
    """The resource at a path like ``/api/v1/namespaces/shop/services/web/status``."""
    parts = path.strip("/").split("/")
    size = 2 if parts[0] == "api" else 3
    group, rest = "/".join(parts[:size]), parts[size:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *_ = [*rest, "", "", ""]
    return Resource(group, plural, namespace, name, subresource)
