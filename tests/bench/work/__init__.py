"""Tests of `bench/work`."""
