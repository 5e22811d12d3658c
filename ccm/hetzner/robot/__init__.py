"""Robot: Hetzner's dedicated servers as machines of Nodes.

``client`` calls the web service. ``machines`` finds servers with few requests, because Robot allows only some
hundred an hour, and describes them as Nodes' machines.
"""

from ccm.hetzner.robot.client import RobotClient, RobotServer
from ccm.hetzner.robot.machines import RobotMachines

__all__ = ["RobotClient", "RobotMachines", "RobotServer"]
