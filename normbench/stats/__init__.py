"""From logged curves to numbers with intervals: series of one run, aggregates over seeds, statistics. No torch."""
