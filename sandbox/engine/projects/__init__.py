"""What is on disk beside the program: the project, its stacks' settings, which stack is meant."""
