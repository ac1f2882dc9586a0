"""Changes over several periods, estimated from releases: levels, and attributes that changed."""
