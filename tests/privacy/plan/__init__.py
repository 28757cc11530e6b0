"""Tests of `privacy/plan`."""
