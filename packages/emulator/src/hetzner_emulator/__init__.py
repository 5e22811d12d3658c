"""The Hetzner Cloud API on a local port, faithful enough that official clients can't tell.

From the ground up:

wire       what stands in requests and answers, without any cloud
state      what is kept
traffic    what befalls requests: faults, the limit of an hour, the log
actions    changes that go on after the answer
cloud      the whole of these, with the world below it (backend)
api        what resources are described with
models     what is kept of each resource, and how the API shows it
resources  the operations on them: one file or folder each
http       the API over HTTP
admin      what the real cloud does not have: calls of tests and people, and their page
app        the application: all of these, with the metadata service
standalone the application served without machines, for ``hetzner-emulator serve``
testing    the pytest fixture
"""
