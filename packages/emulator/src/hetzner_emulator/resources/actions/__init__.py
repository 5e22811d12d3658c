"""Actions of all resources."""
