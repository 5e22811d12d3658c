"""The API over HTTP: who may talk to it, how requests are read, routed and answered."""
