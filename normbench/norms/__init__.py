"""The subject: one file per normalizer, and the sites where they stand. Importing this imports no torch."""
