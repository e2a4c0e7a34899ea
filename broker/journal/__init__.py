"""A cloud's journal: its entries, the inbox beside it, its archive, and checks that it is whole."""
