"""What is made from the table of options: measuring words understood, help, completion, the man page, the reference."""
