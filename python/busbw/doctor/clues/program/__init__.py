"""What the program itself does on some ranks and not on others."""
