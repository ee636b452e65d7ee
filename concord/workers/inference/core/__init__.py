"""What all engines share: the contract of an engine, the chain, agreements, rows and the incumbent."""
