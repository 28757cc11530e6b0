"""Tests of `privacy/accounting`."""
