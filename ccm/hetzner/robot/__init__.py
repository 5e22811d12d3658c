"""Robot: Hetzner's dedicated servers as machines of Nodes.

``client`` speaks to the web service, ``description`` describes a server as a Node's machine (pure), and
``machines`` finds servers with few requests, for Robot allows only some hundred an hour.
"""

from ccm.hetzner.robot.client import RobotClient, RobotServer
from ccm.hetzner.robot.machines import RobotMachines

__all__ = ["RobotClient", "RobotMachines", "RobotServer"]
