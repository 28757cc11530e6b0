"""Tests of `privacy/noise`."""
