"""The static report (and the dashboard's figures): pages from packs and verdicts alone. No torch."""
