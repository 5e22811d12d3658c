"""Resources that clients can only read, and prices."""
