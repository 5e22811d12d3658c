"""What creates, changes and deletes resources."""
