"""Tests of `privacy/team`."""
