"""Names that other programs depend on: taints, labels, annotations, finalizers. They must never change."""

import re

UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN_TAINT = "node.cloudprovider.kubernetes.io/shutdown"
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler"

PROVIDED_NODE_IP = "alpha.kubernetes.io/provided-node-ip"
EXCLUDE_FROM_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
CLEANUP_FINALIZER = "service.kubernetes.io/load-balancer-cleanup"

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
BETA_INSTANCE_TYPE = "beta.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

# (the deprecated label, the label that replaced it)
LABEL_PAIRS = ((BETA_ZONE, ZONE), (BETA_REGION, REGION), (BETA_INSTANCE_TYPE, INSTANCE_TYPE))

# Labels under these domains belong to Kubernetes; a cloud can't set them.
RESERVED_LABEL = re.compile(r"(^|\.)(kubernetes|k8s)\.io/")
