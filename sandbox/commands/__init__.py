"""What a person types after ``./dev``: one command a module.

Each module has ``HELP`` (one line), ``add_arguments(parser)`` and ``run(site, arguments) -> int``, the exit
code. Errors are raised as :class:`sandbox.errors.SandboxError` and printed by ``sandbox.__main__``.
"""
