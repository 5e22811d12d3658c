"""Kubernetes' own end-to-end tests, run against the cluster of this clone.

``selection`` says which run, ``recipe`` what their images consist of and ``images`` makes those, ``run`` lets
ginkgo run them, ``report`` turns their output into a table. The programs are a component of the toolchain.
"""
