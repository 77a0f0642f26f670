"""Probes of Cooijmans et al. 2016, named as their models: `normbench.train.probes` runs them."""
