"""The control loops, each for any cloud: node, node lifecycle, service, route.

A controller gets a key, reads the state, decides with pure functions, and applies the decision. It never uses
which event triggered it.
"""
