"""What is kept: objects, their numbers and their addresses."""
