"""The program that becomes a machine: joins its namespaces, builds its root, runs its init, records its end.

It starts as ``python -m hetzner_machines.guest FILE`` without third-party packages, outlives the sandbox
process and reports everything in files, so that a new sandbox process finds the machine again.
"""
