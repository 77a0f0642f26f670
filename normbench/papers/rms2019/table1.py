"""RMSNorm Table 1: yes or no with the largest relative deviation, as LN's Table 1 is shown."""

from normbench.papers.ln2016.table1 import table as table
