"""What a person types after ``./dev``: one command a module.

Each module has ``HELP`` (one line), ``run(site, arguments) -> int``, which gives the exit code, and where it
knows arguments ``add_arguments(parser)``. Errors are raised as :class:`sandbox.errors.SandboxError` and
printed by ``sandbox.dev``.
"""
