"""Robot: dedicated servers of Hetzner as machines of Nodes.

``client`` calls the web service. ``machines`` describes servers as machines of Nodes. It needs few requests,
because Robot allows only a few hundred an hour.
"""

from ccm.hetzner.robot.client import RobotClient, RobotServer
from ccm.hetzner.robot.machines import RobotMachines

__all__ = ["RobotClient", "RobotMachines", "RobotServer"]
