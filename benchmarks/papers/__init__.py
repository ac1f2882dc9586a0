"""Claims of the papers that need a counterexample, or a bound drawn beside a measurement."""
