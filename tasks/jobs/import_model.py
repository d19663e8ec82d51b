"""Import a model that another library has trained: it becomes the result of a train run."""

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kgcore.config import ImportConfig
from kgcore.config.jobs import ImportedModel
from kgcore.errors import InputError
from tasks.stages.running import Context, StageRef, StageRun, run_stage
from tasks.tracking.artifacts import EMBEDDINGS, GRAPH
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from kgcore.wings.imports.embeddings import Foreign

log = logging.getLogger("kgcal")


def read_embeddings(
    entity_table: str, relation_table: str, entities: str, relations: str, config: ImportConfig
) -> "Foreign":
    """Read two tables of embeddings and the names of their rows.

    entities, relations  files of names; '': the rows are sorted by name, and there is one for each name of the graph

    Raises InputError if a file cannot be used, or if the tables do not fit each other or the scoring function.
    """
    from kgcore.registries import MODELS
    from kgcore.registry import build
    from kgcore.wings.imports.embeddings import Foreign, Table, check_widths
    from kgcore.wings.imports.files import read_names, read_table

    if not (entity_table and relation_table):
        raise InputError("give two files: the table of the entities, then the table of the relations")
    tables = [
        Table(read_table(Path(file)), read_names(Path(names)) if names else None, file)
        for file, names in ((entity_table, entities), (relation_table, relations))
    ]
    foreign = Foreign(config.model, config.model_options, config.layout, *tables)
    build(MODELS.get(config.model), config.model_options, check_widths(foreign))  # checks the options
    return foreign


def read_checkpoint(folder: str, python: str, trust: bool) -> "Foreign":
    """Read a folder of PyKEEN's pipeline: see `read_pykeen`.

    python  Python interpreter that loads the pickle; '': the one that runs kgcal
    """
    from kgcore.wings.imports.embeddings import check_widths
    from kgcore.wings.imports.libraries import read_pykeen

    foreign = read_pykeen(Path(folder), python or sys.executable, trust)
    check_widths(foreign)
    return foreign


def read_libkge_checkpoint(checkpoint: str, entities: str, relations: str, python: str, trust: bool) -> "Foreign":
    """Read a checkpoint of LibKGE: see `read_libkge`.

    entities, relations  files of names; '': in the folder of the checkpoint
    python               Python interpreter that loads a pickle with code; '': the one that runs kgcal
    """
    from kgcore.wings.imports.embeddings import check_widths
    from kgcore.wings.imports.libraries import read_libkge

    entity_file, relation_file = (Path(file) if file else None for file in (entities, relations))
    foreign = read_libkge(Path(checkpoint), entity_file, relation_file, python or sys.executable, trust)
    check_widths(foreign)
    return foreign


def import_model(foreign: "Foreign", data: StageRef, source: str, context: Context = Context()) -> StageRef:
    """Make the train run of an imported model, or find a finished one with the same numbers. Return the run.

    data    the prepare run of the graph
    source  what the model comes from, for its description: names of files, without their folders

    Raises InputError, before a run is opened, if the model has no row for a name of the graph.
    """
    from kgcore.wings.imports.embeddings import import_model as put_in_order

    store = open_store()
    graph = store.load(data.run_id, GRAPH)
    imported = put_in_order(foreign, graph)
    model, fingerprint = imported.model, imported.model.fingerprint()
    config = ImportedModel(model=model.name, model_options=dict(model.options), k=model.k)

    def body(run: StageRun) -> None:
        params = {"model": model.name, "k": model.k, "dataset": graph.name, "source": source}
        run.log_model(EMBEDDINGS, model, f"{graph.name}-{model.name}", params, fingerprint=fingerprint)
        run.tag(RunTags(note=f"Not trained by kgcal: imported from {source}."))

    code = ("kgcore.wings.imports.embeddings",)
    ref = run_stage("train", config, (data,), code, body, context, f"imported {fingerprint}")
    for count, word in ((imported.unused_entities, "entities"), (imported.unused_relations, "relations")):
        if count:
            log.info("import    left out %d %s that the graph does not have", count, word)
    return ref
