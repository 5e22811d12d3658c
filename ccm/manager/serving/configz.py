"""The content of ``/configz``: the configuration of this process, in the format of Kubernetes' components."""

from collections.abc import Mapping
from typing import Any

from ccm.go import format_duration
from ccm.manager.flags import ParsedFlags


def configuration(flags: ParsedFlags, environment: Mapping[str, str]) -> dict[str, Any]:
    """The whole content: all flags, including defaults, and the environment that the cloud shows."""
    shown: dict[str, Any] = {"cloudcontrollermanager.config.k8s.io": _component(flags)}
    return shown | ({"environment": dict(environment)} if environment else {})


def _component(flags: ParsedFlags) -> dict[str, Any]:
    """The flags in the format CloudControllerManagerConfiguration of cloud-provider 0.37."""

    def duration(name: str) -> str:
        return format_duration(flags[name])

    return {
        "Generic": {
            "Port": flags["secure-port"],
            "Address": flags["bind-address"],
            "MinResyncPeriod": duration("min-resync-period"),
            "ClientConnection": {
                "Kubeconfig": flags["kubeconfig"],
                "ContentType": flags["kube-api-content-type"],
                "QPS": flags["kube-api-qps"],
                "Burst": flags["kube-api-burst"],
            },
            "ControllerStartInterval": duration("controller-start-interval"),
            "LeaderElection": {
                "LeaderElect": flags["leader-elect"],
                "LeaseDuration": duration("leader-elect-lease-duration"),
                "RenewDeadline": duration("leader-elect-renew-deadline"),
                "RetryPeriod": duration("leader-elect-retry-period"),
                "ResourceLock": flags["leader-elect-resource-lock"],
                "ResourceName": flags["leader-elect-resource-name"],
                "ResourceNamespace": flags["leader-elect-resource-namespace"],
            },
            "Controllers": list(flags["controllers"]),
            "Debugging": {"EnableProfiling": False, "EnableContentionProfiling": False},
            "LeaderMigrationEnabled": False,
        },
        "KubeCloudShared": {
            "CloudProvider": {"Name": flags["cloud-provider"], "CloudConfigFile": flags["cloud-config"]},
            "ExternalCloudVolumePlugin": flags["external-cloud-volume-plugin"],
            "UseServiceAccountCredentials": flags["use-service-account-credentials"],
            "AllowUntaggedCloud": flags["allow-untagged-cloud"],
            "RouteReconciliationPeriod": duration("route-reconciliation-period"),
            "ClusterName": flags["cluster-name"],
            "ClusterCIDR": flags["cluster-cidr"],
            "AllocateNodeCIDRs": flags["allocate-node-cidrs"],
            "CIDRAllocatorType": flags["cidr-allocator-type"],
            "ConfigureCloudRoutes": flags["configure-cloud-routes"],
            "NodeSyncPeriod": duration("node-sync-period"),
        },
        "NodeController": {
            "ConcurrentNodeSyncs": flags["concurrent-node-syncs"],
            "ConcurrentNodeStatusUpdates": flags["concurrent-node-status-updates"],
        },
        "NodeLifecycleController": {
            "NodeMonitorPeriod": duration("node-monitor-period"),
            "ConcurrentNodeLifecycleSyncs": flags["concurrent-node-lifecycle-syncs"],
        },
        "ServiceController": {"ConcurrentServiceSyncs": flags["concurrent-service-syncs"]},
        "NodeStatusUpdateFrequency": duration("node-status-update-frequency"),
        "Webhook": {"Webhooks": []},
    }
