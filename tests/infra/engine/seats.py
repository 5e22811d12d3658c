"""A resource that compares as K3sServer does and installs nothing; programs on the engine import it."""

import secrets

import pulumi
from pulumi.dynamic import CreateResult, Resource, UpdateResult

from ccm_pulumi.cluster.k3s_installation import K3sServerProvider


class SeatProvider(K3sServerProvider):
    def create(self, props):
        number = secrets.token_hex(8)
        return CreateResult(f"{props['server_id']}/{number}", {**props, "installation": number})

    def update(self, _id, olds, news):
        return UpdateResult({**news, "installation": olds["installation"]})

    def delete(self, _id, props):
        pass

    def drift(self, props):
        return None  # the program does not connect to a record


class Seat(Resource, name="Seat"):
    server_id: pulumi.Output[str]
    installation: pulumi.Output[str]

    def __init__(self, name, props, opts):
        super().__init__(SeatProvider(), name, props, opts)
