from dataclasses import dataclass, field

from ccm.kube.objects import ObjectReference


@dataclass
class Events:
    """A recorder that remembers."""

    all: list[tuple[str, str, str, str]] = field(default_factory=list)
    references: list[ObjectReference] = field(default_factory=list)

    def event(self, reference: ObjectReference, type: str, reason: str, message: str) -> None:  # noqa: A002
        self.all.append((reference.name, type, reason, message))
        self.references.append(reference)

    def reasons(self, name: str | None = None) -> list[str]:
        return [reason for who, _, reason, _ in self.all if name in (None, who)]

    def messages(self, reason: str) -> list[str]:
        return [message for _, _, one, message in self.all if one == reason]
