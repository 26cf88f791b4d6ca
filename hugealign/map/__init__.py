"""The heat of the text by window: as linked, and under an order.  Pure, but for `draw`."""
