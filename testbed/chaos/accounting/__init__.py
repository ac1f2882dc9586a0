"""Every debited release accounted for."""
