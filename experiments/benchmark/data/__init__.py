"""What the data path costs: solution sets, batches, packing."""
