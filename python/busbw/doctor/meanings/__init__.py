"""What the words of an error mean, and what mends it: tables of rows, and those who read them."""
