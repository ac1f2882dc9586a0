"""The server program: takes in the releases of a fleet, keeps them, and answers from them."""
