"""The commands of ``./dev``: one a module, whose name is in ``COMMANDS`` of ``sandbox.dev``.

Each module has ``HELP`` (one line), ``run(site, arguments) -> int``, which gives the exit code, and where it
knows arguments ``add_arguments(parser)``. One that claims addresses may have ``check(clone, arguments)``,
which comes before that and refuses what the parser can't see. Errors are raised as
:class:`sandbox.errors.SandboxError` and printed by ``sandbox.dev``.
"""
