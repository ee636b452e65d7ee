"""What all engines share: the contract, the chain, agreements, rows and the best answer so far."""
