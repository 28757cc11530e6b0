"""Tests of `bench/work/executors`."""
