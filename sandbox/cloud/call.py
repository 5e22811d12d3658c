"""One request as the handlers see it; no HTTP library in sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from multidict import MultiMapping

from sandbox.cloud.cloud import Cloud
from sandbox.cloud.errors import NotFound
from sandbox.cloud.fields import Fields
from sandbox.cloud.records import Record

R = TypeVar("R", bound=Record)


@dataclass
class Call:
    """One authorised request.

    Attributes:
        cloud: the whole cloud.
        project: whose token it bears.
        parameters: the parameters in the path.
        query: the query, with repetitions.
        body: decoded JSON.
        url: address of the path, for links.
    """

    cloud: Cloud
    project: str
    parameters: Mapping[str, str]
    query: MultiMapping[str]
    body: Any
    url: str

    def fields(self) -> Fields:
        """The body, to be read field by field."""
        return Fields(self.body)

    def identity(self, name: str = "id", kind: str = "resource") -> int:
        """A numeric id from the path.

        Raises:
            NotFound: it is not a number, so there is no such object.
        """
        text = self.parameters[name]
        if not (text.isascii() and text.isdecimal() and len(text) < 20):
            raise NotFound(kind, text)
        return int(text)

    def get(self, kind: type[R]) -> R:
        """The object that the path names.

        Raises:
            NotFound: this project has none with this id.
        """
        return self.cloud.store.get(kind, self.project, self.identity("id", kind.KIND))
