"""Programs that judge in tests, built as those of the sandbox are; the folders beside this file pin them."""

from pathlib import Path

from sandbox.kubernetes.components import Component

_HERE = Path(__file__).parent
_PROMETHEUS = "github.com/prometheus/prometheus"
PROMETHEUS = Component(
    "prometheus",
    pin=_PROMETHEUS,
    packages=(f"{_PROMETHEUS}/cmd/prometheus", f"{_PROMETHEUS}/cmd/promtool"),
    programs=("prometheus", "promtool"),
    # It finds targets in Kubernetes, but not at clouds: their SDKs take minutes to build. It has no web page.
    tags=("remove_all_sd", "enable_kubernetes_sd"),
    folder=_HERE,
)
"""Judges the alerts and the dashboard's queries."""

ACTIONLINT = Component(
    "actionlint",
    pin="github.com/rhysd/actionlint",
    packages=("github.com/rhysd/actionlint/cmd/actionlint",),
    programs=("actionlint",),
    folder=_HERE,
)
"""Reads the workflows of continuous integration."""
