"""Tests of `bench/scripts`."""
