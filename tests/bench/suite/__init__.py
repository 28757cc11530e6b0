"""Tests of `bench/suite`."""
