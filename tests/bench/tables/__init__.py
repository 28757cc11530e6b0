"""Tests of `bench/tables`."""
