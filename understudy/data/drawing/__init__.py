"""Drawing schematic faces with arrays: many at once, anti-aliased, no picture library."""
