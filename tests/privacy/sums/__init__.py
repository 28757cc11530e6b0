"""Tests of `privacy/sums`."""
