"""What the dialogues are made of: values, and the words around them."""
