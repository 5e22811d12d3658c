"""What a machine of the sandbox has instead of firmware."""
