"""Run folders and data in buckets (gs:// and s3://), by way of folders on the local disk."""
