"""What is observed from outside during a run."""
