"""The roles of blocks whose holders nobody recorded, by rules."""
