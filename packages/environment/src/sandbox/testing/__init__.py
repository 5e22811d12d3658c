"""What ``./dev test`` runs: the layers of tests, their durations, and the host's limits while they run."""
