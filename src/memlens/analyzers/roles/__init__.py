"""The roles of blocks whose holders nobody recorded, by rules, and what follows from roles."""
