"""The gate: what a ranking policy must prove before it may serve, on generated sets of evidence.

Seven properties, each with its sentence in :data:`broker.gate.checks.CHECKS`. A policy that breaks one is refused with
the smallest set that shows it. The maps under which nothing may change are not linear: a policy that rescales every
lane by its least and greatest score, or by mean and deviation, survives every linear one and cuts all the same.

A gate is evidence and not proof, and no sandbox: a plugin is code that the operator trusts.
"""
