"""The API over HTTP: access, bodies, routing, and responses."""
