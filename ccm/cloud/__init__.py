"""What a cloud must offer: small capabilities with their contracts written on the methods. No I/O here.

To write a cloud, implement the Protocols of the capabilities that it has (:class:`Instances`,
:class:`LoadBalancers`, :class:`Routes`), give them to an object with the attributes of :class:`Cloud`, and
register its factory in the entry-point group ``ccm.clouds``. :mod:`ccm.cloud.sample` is one under a hundred
lines; :mod:`ccm.testing.fake_cloud` is one in memory that can be scripted to fail.
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
