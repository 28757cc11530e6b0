"""Tests of `bench/away`."""
