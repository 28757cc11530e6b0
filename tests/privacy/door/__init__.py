"""Tests of `privacy/door`."""
