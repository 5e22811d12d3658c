"""The program that becomes a machine: joins its namespaces, builds its root, runs its init, notes its end.

It is started as ``python -m hetzner_machines.guest FILE`` without third-party packages, outlives the sandbox
process and tells everything through files, so that a new sandbox process finds the machine again.
"""
