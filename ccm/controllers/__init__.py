"""The controllers, independent of the cloud: node, node lifecycle, service, route.

A controller gets a key, reads the state, decides with pure functions, and applies the decision. The event
that added the key has no influence.
"""
