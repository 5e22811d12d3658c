"""What a stack is: its resources, in which order they depend on each other, and how they are kept."""
