"""Where readings come from: generators that hand a block over and overwrite it afterwards."""
