"""What this machine really gives: probes that run on it and come back as Observations, one file per kind of device."""
