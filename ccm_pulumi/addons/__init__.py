"""What runs in the cluster: the cloud-controller-manager, the cluster-autoscaler, kured, ingress."""
