"""The Pulumi program that builds the environment: network, servers, k3s, and our cloud-controller-manager.

``__main__.py`` wires; every other module holds one component or one decision. Dynamic providers live in these
modules, and not in ``__main__``, because Pulumi stores a reference to their class in the stack's state.
"""
