"""What commands do when something goes wrong: faults on real, short runs."""
