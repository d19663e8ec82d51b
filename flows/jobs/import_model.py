"""The Prefect flows that import a model: from tables of embeddings, and from the files of other libraries."""

from pathlib import Path
from typing import Any

from flows.flow import flow
from flows.job import Argument, job
from flows.stages import published_stage
from kgcore.config import ImportConfig, PrepareConfig
from tasks.jobs.import_model import import_model, read_checkpoint, read_embeddings, read_libkge_checkpoint
from tasks.stages.prepare import PREPARE
from tasks.stages.running import Context


@job(("import", "embeddings"), shown={"entity_table": Argument("ENTITIES"), "relation_table": Argument("RELATIONS")})
@flow(name="import-embeddings")
def import_embeddings(
    entity_table: str = "",
    relation_table: str = "",
    entities: str = "",
    relations: str = "",
    config: ImportConfig = ImportConfig(),
    prepare: PrepareConfig = PrepareConfig(),
    force: bool = False,
) -> str:
    """Import a model from a table of entities and a table of relations.

    The result is a train run, like that of `kgcal train`. `kgcal recalibrate RUN` then calibrates the model.

    Args:
        entity_table: table of the entities, one row each (.npy or .safetensors)
        relation_table: table of the relations, one row each
        entities: file with the names of the entities: one name a line in the order of the rows, or row numbers and
            names; if empty, the rows are sorted by name
        relations: file with the names of the relations; if empty, the rows are sorted by name
        config: the scoring function
        prepare: the graph
        force: run even if a finished run could be re-used
    """
    foreign = read_embeddings(entity_table, relation_table, entities, relations, config)
    return _train_run(foreign, f"{Path(entity_table).name} and {Path(relation_table).name}", prepare, force)


@job(("import", "pykeen"), shown={"folder": Argument("DIR")})
@flow(name="import-pykeen")
def import_pykeen(
    folder: str,
    trust: bool = False,
    python: str = "",
    prepare: PrepareConfig = PrepareConfig(),
    force: bool = False,
) -> str:
    """Import a model that PyKEEN's pipeline has saved with `save_to_directory`.

    PyKEEN saves models as pickles. To load a pickle runs the code that is in it. Therefore --trust is needed, and a
    process of its own loads the file, and hands back only tables of numbers. The result is a train run, like that of
    `kgcal train`. `kgcal recalibrate RUN` then calibrates the model.

    Args:
        folder: folder with trained_model.pkl and training_triples
        trust: load the pickle: its source is trusted
        python: Python that loads the pickle, with PyKEEN and safetensors; if empty, the one that runs kgcal
        prepare: the graph
        force: run even if a finished run could be re-used
    """
    foreign = read_checkpoint(folder, python, trust)
    return _train_run(foreign, f"the PyKEEN folder {Path(folder).resolve().name}", prepare, force)


@job(("import", "libkge"), shown={"checkpoint": Argument("FILE")})
@flow(name="import-libkge")
def import_libkge(
    checkpoint: str,
    entities: str = "",
    relations: str = "",
    trust: bool = False,
    python: str = "",
    prepare: PrepareConfig = PrepareConfig(),
    force: bool = False,
) -> str:
    """Import a checkpoint of LibKGE: TransE, DistMult, ComplEx or RotatE.

    A checkpoint is a pickle. Tensors and settings are read without running code. A checkpoint that has other objects
    needs --trust: a process of its own then loads it, and hands back only tables of numbers. The result is a train run,
    like that of `kgcal train`. `kgcal recalibrate RUN` then calibrates the model.

    Args:
        checkpoint: checkpoint of LibKGE, such as checkpoint_best.pt
        entities: file with row numbers and names of the entities; if empty, entity_ids.del in the checkpoint's folder
        relations: file with row numbers and names of the relations; if empty, relation_ids.del in the checkpoint's
            folder
        trust: load a pickle that has other objects: its source is trusted
        python: Python that loads such a pickle, with LibKGE and safetensors; if empty, the one that runs kgcal
        prepare: the graph
        force: run even if a finished run could be re-used
    """
    foreign = read_libkge_checkpoint(checkpoint, entities, relations, python, trust)
    return _train_run(foreign, f"the LibKGE checkpoint {Path(checkpoint).name}", prepare, force)


def _train_run(foreign: Any, source: str, prepare: PrepareConfig, force: bool) -> str:
    """Make the train run of a model that was read from `source`. Return its id."""
    context = Context(force=force)
    return published_stage(import_model(foreign, PREPARE(config=prepare, context=context), source, context))
