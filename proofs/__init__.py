"""Machine-checked theorems of the guarantee. See docs/explanation/proofs.md."""
