"""An oracle of its own for what JSON values become, and what holds the decoder against it."""
