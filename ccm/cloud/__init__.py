"""The interface between the controllers and a cloud. The docstrings of the methods define the contract.

To write a cloud, implement the Protocols of its capabilities (:class:`Instances`, :class:`LoadBalancers`,
:class:`Routes`). Provide them as attributes of a :class:`Cloud`, and register its factory in the entry-point
group ``ccm.clouds``. :mod:`ccm.cloud.sample` is an example with fewer than 100 lines.
:mod:`ccm.testing.fake_cloud` is a cloud in memory for tests, with configurable failures.
"""

from ccm.cloud.cloud import Cloud, ShowsEnvironment
from ccm.cloud.errors import (
    AccessDenied,
    CloudBusy,
    CloudError,
    CloudUnavailable,
    ImplementedElsewhere,
    Ingress,
    InstanceNotFound,
    Notice,
    NotOurs,
    Protected,
    QuotaExhausted,
    Rejected,
    RetryAfter,
)
from ccm.cloud.instances import EXTERNAL_IP, HOSTNAME, INTERNAL_IP, Address, Instance, Instances, NodeView
from ccm.cloud.load_balancers import (
    ChoosesAnnotations,
    KnowsOthers,
    LoadBalancerResult,
    LoadBalancers,
    Orphan,
    ServicePort,
    ServiceView,
)
from ccm.cloud.routes import Machine, NormalizesProviderIds, Route, Routes, RouteTable
from ccm.errors import ConfigurationError

__all__ = [
    "EXTERNAL_IP",
    "HOSTNAME",
    "INTERNAL_IP",
    "AccessDenied",
    "Address",
    "ChoosesAnnotations",
    "Cloud",
    "CloudBusy",
    "CloudError",
    "CloudUnavailable",
    "ConfigurationError",
    "ImplementedElsewhere",
    "Ingress",
    "Instance",
    "InstanceNotFound",
    "Instances",
    "KnowsOthers",
    "LoadBalancerResult",
    "LoadBalancers",
    "Machine",
    "NodeView",
    "NormalizesProviderIds",
    "NotOurs",
    "Notice",
    "Orphan",
    "Protected",
    "QuotaExhausted",
    "Rejected",
    "RetryAfter",
    "Route",
    "RouteTable",
    "Routes",
    "ServicePort",
    "ServiceView",
    "ShowsEnvironment",
]
