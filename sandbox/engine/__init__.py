"""A small Pulumi engine for places where the Pulumi CLI can't be installed.

It serves Pulumi's own gRPC protocols to the unmodified Python SDK, and keeps state in Pulumi's own
format, so that a genuine Pulumi CLI can carry on with a stack at any time.

It knows what the program in ``infra/`` needs: SSH keys, networks, subnets, firewalls, placement groups and
servers of hcloud, Kubernetes objects, dynamic resources, components. Everything else (load balancers,
functions such as ``get_network``, hooks, charts) is refused by name and left to the Pulumi CLI.

Rooms, each of which knows only those before it: ``properties``, ``state``, ``display``, ``projects``,
``providers``, ``deployment``, ``program``; ``session`` puts them together for ``commands``.
"""

BANNER = "Embedded engine of ccm-from-scratch (this is not the Pulumi CLI)"
"""How the engine introduces itself, so that nobody takes it for the Pulumi CLI."""
