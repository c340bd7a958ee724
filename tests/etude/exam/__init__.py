"""How the étude is examined: what counts as right, the questions of others, worlds that can be had, the figures."""
