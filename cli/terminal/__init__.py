"""The chat's screen: what is drawn, what is typed. It knows nothing of models: it shows what it is given."""
