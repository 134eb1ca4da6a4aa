"""CPU probes: Observations of bandwidth, arithmetic peaks, latency and library products, on one core and on all."""
