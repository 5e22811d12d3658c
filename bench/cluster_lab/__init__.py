"""A cluster that one keeps, and those who use it: what ``./dev bench cluster`` measures with."""
