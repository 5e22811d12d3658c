"""The environment without machines: a control plane on loopback, hollow nodes, the CCM as a process."""
