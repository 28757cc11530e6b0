"""Tests of `privacy/dpsgd`."""
