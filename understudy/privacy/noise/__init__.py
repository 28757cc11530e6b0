"""Secret randomness."""
