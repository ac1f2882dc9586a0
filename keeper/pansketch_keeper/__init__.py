"""The keeper of a blinded fleet: answers each question about masked windows once, with noise."""
