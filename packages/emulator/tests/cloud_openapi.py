"""Validates answers of the emulator against Hetzner's own description, where that is at hand."""

import functools
import json
import os
import re
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
# What is newer than the description; hetzner_emulator.coverage.NEWER has the sources.
NEWER = {("GET", "/networks/{id}/members")}
NEWER_ANSWERS = {("DELETE", "/load_balancers/{id}", "201"): ("DELETE", "/servers/{id}", "200")}
REMOVED_FIELDS = {"datacenter", "deprecated"}

_formats = {
    "date-time": functools.partial(re.fullmatch, r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "decimal": functools.partial(re.fullmatch, r"\d+\.\d+"),
}


def description_path() -> Path | None:
    named = os.environ.get("CCMFS_OPENAPI")
    path = Path(named) if named else ROOT.parent / "shared/reference/hetzner-api/openapi.json"
    return path if path.is_file() else None


def as_it_is_now(value: dict[str, Any]) -> dict[str, Any]:
    """An object of the description with what Hetzner has changed since."""
    if isinstance(value.get("required"), list):
        value["required"] = [name for name in value["required"] if name not in REMOVED_FIELDS]
    if value.get("enum") == ["server"]:  # assignee_type of Primary IPs
        value["enum"] = ["server", "load_balancer", "unassigned"]
    return value


class Description:
    """The operations of the official description with validators of their answers."""

    def __init__(self, path: Path) -> None:
        raw = json.loads(path.read_text(), object_hook=as_it_is_now)
        self.components = raw["components"]["schemas"]
        self.paths = raw["paths"]
        self._patterns = [
            (re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))), template)
            for template in sorted(self.paths, key=lambda p: p.count("{"))
        ]
        self.validated: set[tuple[str, str, str]] = set()

    def template(self, path: str) -> str | None:
        return next((template for pattern, template in self._patterns if pattern.fullmatch(path)), None)

    def operations(self) -> set[tuple[str, str]]:
        verbs = {"get", "put", "post", "delete"}
        return {(m.upper(), path) for path, item in self.paths.items() for m in item if m in verbs}

    @functools.cache  # noqa: B019  one description lives as long as the tests
    def _validator(self, method: str, template: str, status: str) -> Draft202012Validator | None:
        responses = self.paths[template][method.lower()]["responses"]
        response = responses.get(status) or responses[f"{status[0]}xx"]
        content = response.get("content", {}).get("application/json")
        if content is None:
            return None
        schema = self._convert(content["schema"])
        return Draft202012Validator(schema, formats=_formats, validate_formats=True)

    def _convert(self, schema: Any) -> Any:
        """OpenAPI 3.0 to JSON Schema: references inlined, `nullable` spelled out."""
        if isinstance(schema, list):
            return [self._convert(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._convert(self.components[schema["$ref"].rpartition("/")[2]])
        dropped = {"nullable", "example", "examples", "discriminator"}
        result = {key: self._convert(value) for key, value in schema.items() if key not in dropped}
        if schema.get("nullable"):
            result = {"anyOf": [{"type": "null"}, result]}
        return result

    def problems(self, method: str, path: str, status: int, body: bytes) -> list[str]:
        """What is wrong with an answer; empty when nothing is, or when the path is not described."""
        if path.startswith("/storage_boxes"):
            return []  # of another API
        template = self.template(path)
        if template is None or method.lower() not in self.paths[template]:
            known = any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", p), path) for m, p in NEWER if m == method)
            return [] if known or status >= 400 else [f"{method} {path} is not described"]
        described = NEWER_ANSWERS.get((method, template, str(status)), (method, template, str(status)))
        validator = self._validator(*described)
        self.validated.add((method, template, str(status)))
        if validator is None:
            return [] if not body else [f"{method} {path}: {status} must have no body"]
        errors = validator.iter_errors(json.loads(body))
        return [
            f"{method} {path} {status}: {'/'.join(map(str, e.instance_path))}: {e.message[:300]}"
            for e in errors
        ]


@functools.cache
def description() -> Description | None:
    path = description_path()
    return None if path is None else Description(path)
