"""The static report, from packs and verdicts alone, and a battery's page; the dashboard: an index of all runs, and the
server that answers from it. No torch.
"""
