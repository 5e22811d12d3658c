"""The state: records, IDs, and addresses."""
