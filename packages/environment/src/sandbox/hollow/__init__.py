"""The environment without machines: a real control plane on loopback, hollow nodes, the CCM as a process.

Chosen where root or namespaces are missing. The cloud's API is the same; what a server does when it is on is
to be a hollow node of the cluster.
"""
