"""Tests of `privacy/local`."""
