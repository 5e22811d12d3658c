"""What goes wrong between the CCM and the cloud, and whether all ends well: cells of a matrix, and deaths.

``./dev bench faults`` prints them, and ``tests/faults`` asserts them: the same cells. Each has an emulated
cloud of its own, the real controllers or the real process, and an API server.
"""

from bench.fault_lab.cells import Cell, run_cell, run_cells
from bench.fault_lab.faults import FAULTS, NOTHING, Fault
from bench.fault_lab.kills import Cluster, Kill, OpenCluster, kill_everywhere, memory_cluster
from bench.fault_lab.operations import OPERATIONS, Operation
from bench.fault_lab.sky import LabError
from bench.fault_lab.world import NotConverged, hurried

__all__ = [
    "FAULTS",
    "NOTHING",
    "OPERATIONS",
    "Cell",
    "Cluster",
    "Fault",
    "Kill",
    "LabError",
    "NotConverged",
    "OpenCluster",
    "Operation",
    "hurried",
    "kill_everywhere",
    "memory_cluster",
    "run_cell",
    "run_cells",
]
