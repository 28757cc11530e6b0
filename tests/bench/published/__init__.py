"""Tests of `bench/published`."""
