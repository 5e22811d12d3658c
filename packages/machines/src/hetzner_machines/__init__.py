"""Servers as Linux machines, networks as router namespaces, load balancers as haproxy.

Start at :mod:`hetzner_machines.backend`. This file imports nothing: a machine's start program is in this
package and must start within milliseconds.
"""
