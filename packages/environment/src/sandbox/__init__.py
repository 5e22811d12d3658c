"""The development environment: the commands of ``./dev``, and the sandbox that they start."""
