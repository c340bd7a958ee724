"""The command line: the one package that prints, exits, and reads the environment and the clock."""
