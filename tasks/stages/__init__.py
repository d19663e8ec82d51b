"""The stages of the pipeline, one file each: load -> one kgcore call -> log -> return a StageRef.

base.py is what they share: reference, key, lock, re-use. Jobs that chain stages live in tasks/jobs and flows/.
"""
