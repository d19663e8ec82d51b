"""The base class of models whose score is s^T M o, with a matrix M for each predicate."""

from abc import abstractmethod

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel


class BilinearModel(QueryModel):
    """A model with f(s, p, o) = s^T M_p o.

    Training on the CPU makes the matrices of the distinct predicates of a step once, and multiplies all rows of a
    predicate with its matrix at once. On `family`, with 10 predicates and k = 100, this is ten (TuckER) to twenty
    (RESCAL) times as fast as a product for each row.
    """

    comparator = DotProduct()

    @abstractmethod
    def matrices(self, predicates: Tensor) -> Tensor:
        """Return the matrices M of predicates: (..., predicate_width) -> (..., entity_width, entity_width)."""

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return (subjects.unsqueeze(-2) @ self.matrices(predicates)).squeeze(-2)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return (self.matrices(predicates) @ objects.unsqueeze(-1)).squeeze(-1)

    def grouped_queries(
        self, subjects: Tensor, predicates: Tensor, objects: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the object queries and the subject queries of b triples of r distinct predicates: (b, d) each.

        subjects, objects  (b, entity_width)
        predicates         (r, predicate_width)
        places             (b,) the place of each triple's predicate in `predicates`
        """
        matrices, (order, ends) = self.matrices(predicates), _groups(places, len(predicates))
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=order.device)

        def products(rows: Tensor, of: Tensor) -> Tensor:
            parts = rows.index_select(0, order).tensor_split(ends)
            return torch.cat([part @ matrix for part, matrix in zip(parts, of, strict=True)]).index_select(0, back)

        return products(subjects, matrices), products(objects, matrices.mT)


def _groups(places: Tensor, count: int) -> tuple[Tensor, list[int]]:
    """Return the order that sorts the places (b,), all below `count`, and where each place but the first begins."""
    order = torch.argsort(places, stable=True)
    return order, torch.bincount(places, minlength=count).cumsum(0)[:-1].tolist()
