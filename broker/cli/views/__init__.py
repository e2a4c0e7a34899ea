"""Tables and text with which commands show results to people."""
