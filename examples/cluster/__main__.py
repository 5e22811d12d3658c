"""A network, servers, k3s on them and the cloud-controller-manager; docs/guides/components.md."""

import pulumi

from ccm_pulumi.components import CloudControllerManager, HetznerNetwork, HetznerServers, K3sCluster, settings

wanted = settings(**pulumi.Config().require_object("cluster"))
network = HetznerNetwork("shop", wanted)
servers = HetznerServers("shop", wanted, network)
cluster = K3sCluster("shop", wanted, servers)
manager = CloudControllerManager("shop", wanted, cluster, network)
pulumi.export("kubeconfig", cluster.kubeconfig)
