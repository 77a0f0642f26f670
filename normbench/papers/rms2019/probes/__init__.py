"""Probes of Zhang and Sennrich 2019, named as their models: `normbench.train.probes` runs them."""
