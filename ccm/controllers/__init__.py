"""The control loops, each for any cloud: node, node lifecycle, service, route.

A controller gets a key, reads the world, decides with pure functions and makes the decision true. It never
asks which event brought it here.
"""
