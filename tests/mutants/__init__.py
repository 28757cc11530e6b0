"""Planted faults: small patches of the package, applied in memory, that a test must catch."""
