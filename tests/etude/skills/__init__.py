"""What the étude can do: one module a skill, each makes dialogues from values and the prompt they stand under."""
