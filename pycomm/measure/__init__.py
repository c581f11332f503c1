"""Measuring: the pattern that proves a result, the timed loop, its statistics, the sweep and its records."""
