"""Lines found in blocks of bytes: formats as data, and what runs is made from them."""
