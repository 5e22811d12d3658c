"""Names and versions that a person sees."""

import pkgutil

NOTE = "release"
"""The file that contains :data:`VERSION`. Only builds of a version other than the default have this file."""

IMAGE_VERSION = "v1.37.2+k3s1"
"""The default release. The machine image contains the Kubernetes version of this release."""


def _own_version() -> str:
    # importlib.resources would be a quarter of the time before `k3s kubectl` becomes kubectl.
    try:
        note = pkgutil.get_data(__spec__.parent, NOTE)
    except OSError:
        note = None
    return note.decode().strip() if note else IMAGE_VERSION


VERSION = _own_version()
"""The release of k3s that the stand-in imitates."""

KUBERNETES_VERSION = VERSION.partition("+")[0]
COREDNS_IMAGE = "docker.io/rancher/mirrored-coredns-coredns:1.15.0"
LOCAL_PATH_IMAGE = "docker.io/rancher/local-path-provisioner:v0.0.30"
METRICS_SERVER_IMAGE = "docker.io/rancher/mirrored-metrics-server:v0.9.0"
BUSYBOX_IMAGE = "docker.io/rancher/mirrored-library-busybox:1.37.0"
"""The image of the Pods that create and delete volume folders. The image has the same name as in k3s, but
contains Debian's busybox."""

PAUSE_IMAGE = "docker.io/rancher/mirrored-pause:3.6"
