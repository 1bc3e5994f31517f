"""Many runs: grids of settings, sweeps and their standings."""
