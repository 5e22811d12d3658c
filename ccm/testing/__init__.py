"""For tests of clouds: a fake cloud, an API server in memory, and the conformance suite."""
