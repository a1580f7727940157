"""The annotated programs of SQUALL (Shi et al., 2020), and whether Z holds them."""
