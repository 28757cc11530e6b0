"""Loaders: one file per kind of source, each giving the same `RawPart`s."""
