"""How the command line shows results to people."""
