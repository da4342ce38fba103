"""What a running driver serves to others."""
