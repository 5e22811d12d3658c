"""What goes wrong between the CCM and the cloud, and whether all ends well: cells of a matrix, and deaths.

``tests/faults`` asserts them. Each has an emulated cloud of its own, the real controllers or the real
process, and an API server.
"""

from bench.fault_lab.cells import run_cells
from bench.fault_lab.faults import FAULTS, NOTHING
from bench.fault_lab.kills import Cluster, kill_everywhere
from bench.fault_lab.operations import OPERATIONS
from bench.fault_lab.world import hurried

__all__ = ["FAULTS", "NOTHING", "OPERATIONS", "Cluster", "hurried", "kill_everywhere", "run_cells"]
