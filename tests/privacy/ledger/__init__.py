"""Tests of `privacy/ledger`."""
