"""Suites: which runs there shall be."""
