"""The experiments of P4: batch jobs on spot markets, on synthetic ones and on those of 2015."""
