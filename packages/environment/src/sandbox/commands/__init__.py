"""The commands of ``./dev``: each module here is one.

A module has ``HELP`` (one line) and ``run(site, arguments)``, which returns the exit code. It may have:

- ``add_arguments(parser)``
- ``check(clone, arguments)``, which refuses what is known to be wrong before anything is claimed or written
- ``WITHOUT_ADDRESSES = True``: it needs only the clone's files, and ``run`` gets a Clone
- ``CLAIMS = True``: it claims addresses if the clone has none; others then refuse to run
- ``STARTS = True``: it starts the process on the clone's own port; others ask the process that runs
- ``CHANGES = True``: no other command may change the environment meanwhile
- ``WRAPS = True``: its arguments, including options, belong to another program
"""
