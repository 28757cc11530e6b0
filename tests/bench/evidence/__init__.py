"""Tests of `bench/evidence`."""
