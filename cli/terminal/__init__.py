"""The chat's screen: drawing and typing. It knows nothing of models."""
