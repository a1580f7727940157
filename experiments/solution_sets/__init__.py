"""Sizes of Z by rule and data set, next to the figures of the paper."""
