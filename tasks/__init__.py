"""The stages, one file each, in the order of the pipeline: load -> one kgcore call -> log -> return a StageRef."""
