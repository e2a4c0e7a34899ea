"""What a cloud discloses of its tables, and which lifetime to ask for given what it discloses."""
