"""Ways to compute per-record gradients; they differ in speed, never in result."""
