"""What memlens concludes, as data, and the one place where it is put into words."""
