"""The subject: one file per normalizer, and the sites where they stand. Importing this package does not import torch."""
