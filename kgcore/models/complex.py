"""ComplEx: DistMult over the complex numbers, which also models predicates that are not symmetric."""

from torch import Tensor

from kgcore.loops.queries import COMPLEX
from kgcore.loops.scores import complex_products, fits_loop, scored_by
from kgcore.models.base import QueryModel
from kgcore.models.comparators import DotProduct
from kgcore.models.complex_products import products
from kgcore.registries import MODELS


@MODELS.register("complex")
class ComplEx(QueryModel):
    """f(s, p, o) = Re(sum_i r_i s_i conj(o_i)).

    Trouillon et al., "Complex Embeddings for Simple Link Prediction", ICML 2016.
    Embeddings: (k,) complex, stored as (2k,) real, real parts first. Range: all reals.
    As queries: Re(<s r, o>) = (s r) . o and Re(<s, conj(r) o>) = s . (conj(r) o), dot products of the real vectors.
    """

    scale = 0.5  # of order 1, because the gradient of a product of three small numbers is almost 0
    comparator = DotProduct()
    form = COMPLEX
    compiles = False  # products with a loop of their own, and products of matrices

    @property
    def entity_width(self) -> int:
        return 2 * self.k

    @property
    def predicate_width(self) -> int:
        return 2 * self.k

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return products(subjects, predicates)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return products(predicates, objects, conjugated=True)

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        if fits_loop(subjects, predicates, objects):
            return scored_by(complex_products, subjects, predicates, objects) * self.factor
        return super().score(subjects, predicates, objects)
