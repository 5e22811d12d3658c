"""The Hetzner Cloud API on a local port, faithful enough for Hetzner's own clients.

The layers, from the lowest:

wire       fields, labels, and pages of requests and responses
state      the records and their file
traffic    injected faults, the rate limit, and the request log
actions    asynchronous changes
cloud      all of these, and the backend
api        the description of operations, resources, and catalogs
models     the record of each resource, and how the API shows it
resources  the operations on resources: one folder each
http       the API over HTTP
admin      calls that Hetzner's API doesn't have, for tests and users, and the console page
app        the application with the metadata service
standalone the application without machines, for ``hetzner-emulator serve``
testing    the pytest fixture
"""
