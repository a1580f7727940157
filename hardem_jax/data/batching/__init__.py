"""Batching: padding to buckets, sequence packing and training plans."""
