"""One module or package per resource of the API; importing it registers it."""
