"""Getting the data sets from their official addresses."""
