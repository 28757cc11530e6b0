"""Clipped sums over units: where one unit's influence is bounded."""
