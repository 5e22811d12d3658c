"""A stand-in for k3s: the same command, flags, files, units and tokens, with upstream Kubernetes underneath.

It runs in a machine of the sandbox as one zipapp file, with Python 3.11's standard library and the PyYAML
that cloud-init installs. The file also contains ``ccm.go`` and ``ccm.kube.nesting``, which it imports.
"""
