"""Probes of BLN 2022, named as their models: `normbench.train.probes` runs them."""
