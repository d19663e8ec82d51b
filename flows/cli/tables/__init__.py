"""Results as a person sees them in the terminal."""
