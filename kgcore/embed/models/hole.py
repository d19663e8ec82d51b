"""HolE: subject and object are compressed into one vector by circular correlation."""

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


@MODELS.register("hole")
class HolE(QueryModel):
    """f(s, p, o) = r . (s corr o), where (s corr o)_j = sum_i s_i o_{(i + j) mod k}, by FFT in O(k log k).

    Nickel et al., "Holographic Embeddings of Knowledge Graphs", AAAI 2016.
    The numbers that the paper publishes for HolE come from `hole_complex`, an equivalent (Hayashi & Shimbo, ACL 2017).
    Embeddings: (k,) real for entities and predicates. Range: all reals.
    As queries: r . (s corr o) = o . (s conv r) = s . (r corr o), where conv is circular convolution.
    """

    scale = 0.1  # smaller than in DistMult, because a score is a sum of k^2 products instead of k
    comparator = DotProduct()

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        query: Tensor = torch.fft.irfft(torch.fft.rfft(subjects) * torch.fft.rfft(predicates), n=self.k)
        return query

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        query: Tensor = torch.fft.irfft(torch.fft.rfft(predicates).conj() * torch.fft.rfft(objects), n=self.k)
        return query
