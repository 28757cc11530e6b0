"""Benchmarks and their evidence."""
