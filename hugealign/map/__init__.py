"""Where in the text the heat lies, by window: as linked, and under an order.  Pure, but for `raster`."""
