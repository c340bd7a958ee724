"""`ossia batch`: many questions from a file, answered beside one another, a line each, in the file's order.

Begin with `batch`. `questions` reads the input, `answers` writes the output, `lane` answers one question at a time.
"""
