"""What releases of several periods tell of time: levels, and attributes that changed."""
