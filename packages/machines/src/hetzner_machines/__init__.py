"""Servers as Linux machines of their own, networks as router namespaces, load balancers as haproxy.

Start at :mod:`hetzner_machines.backend`. This file imports nothing: a machine's start program lives below
this package and must come up in milliseconds.
"""
