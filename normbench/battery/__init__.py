"""Where does a normalizer stand? Contracts, its row of Table 1, and the experiments against none, batch and layer."""
