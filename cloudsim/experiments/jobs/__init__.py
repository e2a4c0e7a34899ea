"""The experiments of paper 003: batch jobs on spot markets."""
