"""Diffusion models trained by DP-SGD: one core and trainer, and the methods that share it."""
