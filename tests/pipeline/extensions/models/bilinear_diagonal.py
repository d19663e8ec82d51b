"""f(s, p, o) = 2 <s, p, o>."""

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


@MODELS.register("bilinear_diagonal")
class BilinearDiagonal(QueryModel):
    scale = 0.5
    comparator = DotProduct()

    def object_query(self, subjects, predicates):
        return 2 * subjects * predicates

    def subject_query(self, predicates, objects):
        return 2 * predicates * objects
