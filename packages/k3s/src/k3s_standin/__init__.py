"""A stand-in for k3s: the same command, flags, files, units and tokens, with upstream Kubernetes underneath.

Runs inside a machine of the sandbox as one zipapp file, with Python 3.11's standard library and the PyYAML
that cloud-init brings. Of the rest of this repository it imports ``ccm.go`` and ``ccm.kube.nesting``, which
are in the file, too.
"""
