"""The settings of a stack: their types, their rules, and the servers that they ask for."""
