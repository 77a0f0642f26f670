"""The static report from packs and verdicts, the page of a battery, and the dashboard: an index of all runs and the
server that reads it. No torch.
"""
