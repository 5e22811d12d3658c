"""A dynamic resource that notes what is done with it; programs on the engine import it."""

import os
from pathlib import Path

import pulumi
from pulumi.dynamic import CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

JOURNAL = Path(os.environ["JOURNAL"])


def note(*what):
    with JOURNAL.open("a") as file:
        file.write(" ".join(map(str, what)) + "\n")


class ThingProvider(ResourceProvider):
    def diff(self, _id, olds, news):
        replaces = [key for key in ("host",) if olds.get(key) != news.get(key)]
        changes = any(olds.get(key) != news.get(key) for key in ("size", "host"))
        return DiffResult(changes=changes, replaces=replaces, delete_before_replace=bool(news.get("first")))

    def create(self, props):
        note("create", props["label"])
        return CreateResult(f"{props['label']}@{props.get('host')}", dict(props))

    def update(self, _id, olds, news):
        note("update", news["label"])
        return UpdateResult(dict(news))

    def delete(self, _id, props):
        note("delete", props["label"])


class Thing(Resource):
    host: pulumi.Output[str]

    def __init__(self, name, opts=None, host="h", size=1, **more):
        super().__init__(ThingProvider(), name, {"label": name, "host": host, "size": size, **more}, opts)
