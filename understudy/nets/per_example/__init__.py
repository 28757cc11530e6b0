"""Layers whose backward pass gives the gradient of every example, for parameters expanded over
examples."""
