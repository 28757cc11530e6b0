"""Fits on another machine: jobs are packed here, worked off there, and collected."""
