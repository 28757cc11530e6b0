"""Tests of `nets/per_example`."""
