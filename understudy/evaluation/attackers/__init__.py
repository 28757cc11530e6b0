"""Attacks on a release, each one a metric with a control, a guessing baseline and a version.

An attack that finds nothing proves nothing: a stronger one may. What is promised is the
claim; these rows only show what these attackers, as they are, can do. None of them is a
grade, and none decides whether a differentially private release goes out.
"""
