"""What tables and steps say of a job, against what its machine should deliver."""
