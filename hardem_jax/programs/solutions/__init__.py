"""Z and f of programs."""
