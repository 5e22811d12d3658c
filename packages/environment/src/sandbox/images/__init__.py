"""Container images that a person brings: archives, engines, sending them to machines, and the registry."""
