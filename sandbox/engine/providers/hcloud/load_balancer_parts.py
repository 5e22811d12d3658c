"""hcloud.LoadBalancerNetwork, LoadBalancerService and LoadBalancerTarget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.engine.errors import ResourceNotFoundError
from sandbox.engine.providers.hcloud.api import Api, ApiError
from sandbox.engine.providers.hcloud.kind import Kind, present
from sandbox.engine.values import Properties

_BUSY = ("conflict", "locked", "service_error")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class _Part(Kind):
    """Something of a load balancer."""

    def load_balancer(self, api: Api, identity: int | str) -> dict[str, Any]:
        """The API's load balancer."""
        return api.get(f"/load_balancers/{identity}")["load_balancer"]

    def act(self, api: Api, identity: int | str, action: str, body: Mapping[str, Any]) -> None:
        """An action, repeated while the load balancer is busy."""
        api.retry(lambda: api.act(f"/load_balancers/{identity}/actions/{action}", body), _BUSY, 5)

    def find(self, api: Api, inputs: Properties) -> Properties | None:
        """The part, if it came to be."""
        try:
            api.settle(f"/load_balancers/{int(inputs['loadBalancerId'])}")
            return self.read(api, self.identity(inputs), inputs)
        except ResourceNotFoundError:
            return None

    def identity(self, inputs: Properties) -> str:
        """The id that the inputs lead to."""
        raise NotImplementedError


class LoadBalancerNetwork(_Part):
    """A load balancer's place in a network."""

    type = "hcloud:index/loadBalancerNetwork:LoadBalancerNetwork"
    inputs = frozenset({"loadBalancerId", "networkId", "subnetId", "ip", "enablePublicInterface"})
    required = ("loadBalancerId",)
    replaces = frozenset({"loadBalancerId", "networkId", "subnetId", "ip"})

    def identity(self, inputs: Properties) -> str:
        """Load balancer and network."""
        network = inputs.get("networkId") or str(inputs["subnetId"]).split("-", 1)[0]
        return f"{int(inputs['loadBalancerId'])}-{int(network)}"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Attach."""
        identity = self.identity(inputs)
        load_balancer, network = identity.split("-", 1)
        subnet = inputs.get("subnetId")
        ip_range = str(subnet).split("-", 1)[1] if subnet else None
        try:
            self.act(
                api,
                load_balancer,
                "attach_to_network",
                present(network=int(network), ip=inputs.get("ip"), ip_range=ip_range),
            )
        except ApiError as error:
            if error.code != "load_balancer_already_attached":
                raise
        if inputs.get("enablePublicInterface") is False:
            self.act(api, load_balancer, "disable_public_interface", {})
        return self.read(api, identity, inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Look at the load balancer."""
        load_balancer, network = identity.split("-", 1)
        found = self.load_balancer(api, load_balancer)
        place = next((item for item in found["private_net"] if item["network"] == int(network)), None)
        if place is None:
            raise ResourceNotFoundError(f"load balancer {load_balancer} is not in network {network} any more")
        outputs = {
            "enablePublicInterface": found["public_net"]["enabled"],
            "id": identity,
            "ip": place["ip"],
            "loadBalancerId": int(load_balancer),
            "networkId": int(network),
        }
        return outputs | ({"subnetId": inputs["subnetId"]} if inputs.get("subnetId") else {})

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Switch the public interface."""
        switch = "disable" if new.get("enablePublicInterface") is False else "enable"
        self.act(api, identity.split("-", 1)[0], f"{switch}_public_interface", {})

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:  # noqa: ARG002
        """Detach."""
        load_balancer, network = identity.split("-", 1)
        try:
            self.read(api, identity, {})
            self.act(api, load_balancer, "detach_from_network", {"network": int(network)})
        except ResourceNotFoundError:
            return


class LoadBalancerService(_Part):
    """A port on which a load balancer listens."""

    type = "hcloud:index/loadBalancerService:LoadBalancerService"
    inputs = frozenset({
        "loadBalancerId", "protocol", "listenPort", "destinationPort", "proxyprotocol", "http", "healthCheck",
    })  # fmt: skip
    required = ("loadBalancerId", "protocol")
    replaces = frozenset({"loadBalancerId", "listenPort"})

    def identity(self, inputs: Properties) -> str:
        """Load balancer and port."""
        return f"{int(inputs['loadBalancerId'])}__{_port(inputs)}"

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it."""
        self.act(api, int(inputs["loadBalancerId"]), "add_service", _service(inputs))
        return self.read(api, self.identity(inputs), inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:  # noqa: ARG002
        """Look at the load balancer."""
        load_balancer, port = identity.split("__", 1)
        services = self.load_balancer(api, load_balancer)["services"]
        found = next((item for item in services if item["listen_port"] == int(port)), None)
        if found is None:
            raise ResourceNotFoundError(
                f"load balancer {load_balancer} does not listen on port {port} any more"
            )
        return _service_outputs(identity, found)

    def normal(self, key: str, value: Any) -> Any:
        """Ids as texts."""
        if key == "certificates" and isinstance(value, list):
            return sorted(str(item) for item in value) or None
        return super().normal(key, value)

    def drift(self, key: str, given: Any, real: Any) -> Any:
        """Of the nested settings only what the program has given; the API tells its defaults, too."""
        if isinstance(given, dict) and isinstance(real, dict):
            return {name: self.drift(name, value, real.get(name)) for name, value in given.items()}
        return super().drift(key, given, real)

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Update it."""
        self.act(api, identity.split("__", 1)[0], "update_service", _service(new))

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Remove it."""
        load_balancer, port = identity.split("__", 1)
        try:
            self.read(api, identity, inputs)
            self.act(api, load_balancer, "delete_service", {"listen_port": int(port)})
        except ResourceNotFoundError:
            return


class LoadBalancerTarget(_Part):
    """Where a load balancer sends traffic."""

    type = "hcloud:index/loadBalancerTarget:LoadBalancerTarget"
    inputs = frozenset({"loadBalancerId", "type", "serverId", "labelSelector", "ip", "usePrivateIp"})
    required = ("loadBalancerId", "type")
    replaces = inputs - {"usePrivateIp"}

    def identity(self, inputs: Properties) -> str:
        """Load balancer, type and target, as the genuine plugin puts them together."""
        kind = inputs["type"]
        marks = {"server": "srv", "label_selector": "lb", "ip": "ip"}
        value = (
            inputs.get("serverId") if kind == "server" else inputs.get("labelSelector") or inputs.get("ip")
        )
        return f"lb-{marks[kind]}-tgt-{value}-{int(inputs['loadBalancerId'])}"

    def _target(self, inputs: Properties) -> Properties:
        kind = inputs["type"]
        detail = {
            "server": lambda: {"server": {"id": int(inputs["serverId"])}},
            "label_selector": lambda: {"label_selector": {"selector": inputs["labelSelector"]}},
            "ip": lambda: {"ip": {"ip": inputs["ip"]}},
        }[kind]()
        return {"type": kind, **detail}

    def create(self, api: Api, inputs: Properties) -> Properties:
        """Add it."""
        body = self._target(inputs)
        if inputs.get("usePrivateIp") is not None:
            body["use_private_ip"] = bool(inputs["usePrivateIp"])
        try:
            self.act(api, int(inputs["loadBalancerId"]), "add_target", body)
        except ApiError as error:
            if error.code != "target_already_defined":
                raise
        return self.read(api, self.identity(inputs), inputs)

    def read(self, api: Api, identity: str, inputs: Properties) -> Properties:
        """Look at the load balancer."""
        wanted = self._target(inputs)
        key = wanted["type"]
        for item in self.load_balancer(api, int(inputs["loadBalancerId"]))["targets"]:
            if item["type"] == key and all(
                item[key].get(name) == value for name, value in wanted[key].items()
            ):
                shown = {name: inputs[name] for name in self.inputs if name in inputs}
                return {**shown, "id": identity, "usePrivateIp": bool(item.get("use_private_ip"))}
        raise ResourceNotFoundError(f"{identity} is not a target any more")

    def normal(self, key: str, value: Any) -> Any:
        """A switch is off by default."""
        return None if value is False else super().normal(key, value)

    def change(self, api: Api, identity: str, old: Properties, new: Properties, keys: Sequence[str]) -> None:  # noqa: ARG002
        """Remove it and add it with the other address, as the genuine plugin does."""
        self.delete(api, identity, old)
        self.create(api, new)

    def delete(self, api: Api, identity: str, inputs: Properties) -> None:
        """Remove it."""
        try:
            self.read(api, identity, inputs)
            self.act(api, int(inputs["loadBalancerId"]), "remove_target", self._target(inputs))
        except ResourceNotFoundError:
            return


def _port(inputs: Properties) -> int:
    return int(inputs.get("listenPort") or _DEFAULT_PORTS.get(inputs["protocol"], 0))


def _service(inputs: Properties) -> Properties:
    http, check = inputs.get("http"), inputs.get("healthCheck")
    return present(
        protocol=inputs["protocol"],
        listen_port=_port(inputs),
        destination_port=int(inputs.get("destinationPort") or _DEFAULT_PORTS["http"]),
        proxyprotocol=bool(inputs.get("proxyprotocol")),
        http=_http(http) if http else None,
        health_check=_health_check(check) if check else None,
    )


def _http(http: Mapping[str, Any]) -> Properties:
    return present(
        sticky_sessions=http.get("stickySessions"),
        cookie_name=http.get("cookieName"),
        cookie_lifetime=http.get("cookieLifetime"),
        certificates=[int(item) for item in http.get("certificates") or ()] or None,
        redirect_http=http.get("redirectHttp"),
        timeout_idle=http.get("timeoutIdle"),
    )


def _health_check(check: Mapping[str, Any]) -> Properties:
    http = check.get("http")
    body = {key: check[key] for key in ("protocol", "port", "interval", "timeout", "retries") if key in check}
    if http:
        body["http"] = present(
            domain=http.get("domain") or "",
            path=http.get("path"),
            response=http.get("response"),
            status_codes=http.get("statusCodes"),
            tls=http.get("tls"),
        )
    return body


def _service_outputs(identity: str, found: Mapping[str, Any]) -> Properties:
    check = found["health_check"]
    http = check.get("http") or {}
    shown = {key: check[key] for key in ("interval", "port", "protocol", "retries", "timeout")}
    if http:
        shown["http"] = {
            "domain": http.get("domain") or "",
            "path": http.get("path") or "",
            "response": http.get("response") or "",
            "statusCodes": list(http.get("status_codes") or ()),
            "tls": bool(http.get("tls")),
        }
    outputs: Properties = {
        "destinationPort": found["destination_port"],
        "healthCheck": shown,
        "id": identity,
        "listenPort": found["listen_port"],
        "loadBalancerId": identity.split("__", 1)[0],
        "protocol": found["protocol"],
        "proxyprotocol": found["proxyprotocol"],
    }
    if found.get("http"):
        outputs["http"] = {
            "certificates": list(found["http"].get("certificates") or ()),
            "cookieLifetime": found["http"].get("cookie_lifetime"),
            "cookieName": found["http"].get("cookie_name"),
            "redirectHttp": found["http"].get("redirect_http"),
            "stickySessions": found["http"].get("sticky_sessions"),
            "timeoutIdle": found["http"].get("timeout_idle"),
        }
    return outputs
