"""Talking to Kubernetes: transport, partial models, informer, queue, lease, Events. It knows no cloud."""
