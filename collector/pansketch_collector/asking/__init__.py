"""Questions to keepers about masked releases: which are due, and what becomes of them."""
