"""Sources of readings: generators that yield a block and overwrite it afterwards."""
