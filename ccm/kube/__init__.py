"""Talking to Kubernetes: transport, partial models, informer, work queue, lease, events.

Nothing in here knows what a cloud is. Read in this order: ``objects`` (what we decode), ``protocol`` (what a
transport offers), ``transport`` (the real one), ``memory`` (an API server in this process, for tests and for
users of the framework), ``informer`` (a local, always current copy), ``queue`` and ``reconciler`` (what to
work on next), ``events`` and ``lease``.
"""
