"""What the comparisons share: the emulated cloud, a real API server, the CCM as a process, tables.

``stage`` puts the first two up; ``subject`` runs our CCM, or the official one, on it; ``report`` prints what
was found; ``clock`` lets an hour pass in seconds, in ``hours``.
"""
