"""What the other packages build on: the cloud's API, SSH, dynamic providers, files, errors."""
