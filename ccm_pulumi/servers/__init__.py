"""Resources in the cloud: the network, servers, their SSH keys, the load balancer of the Kubernetes API."""
