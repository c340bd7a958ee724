"""OpenAI's Harmony format: messages ⇄ token ids, purely. No I/O, no clock, no environment, no randomness."""
