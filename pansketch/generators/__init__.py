"""What merged releases become: generators of synthetic records that also answer queries."""
