"""The suite `repo`: small repositories, made by a script from a seed, each with a job that hidden tests judge.

`repo` makes the tasks, `parts` what every repository has; the jobs are in `mending`, `changing` and `tending`.
"""
