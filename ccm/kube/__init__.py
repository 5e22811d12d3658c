"""The Kubernetes client: transport, partial models, informer, queue, lease, Events. Independent of clouds."""
