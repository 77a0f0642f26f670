"""Files as such: read with care, written whole, locked, temporary. Nothing here knows what is in them."""
