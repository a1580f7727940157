"""Which inputs make up a batch: padding to buckets, packing, training plans."""
