"""Tests of claims: contract checks for methods."""
