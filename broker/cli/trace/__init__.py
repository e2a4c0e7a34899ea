"""`spotfed trace`: inspect, import, convert, plot and record traces."""
