"""HolE as the paper's published code computes it: ComplEx's score times 2 / k."""

from kgcore.embed.models.complex import ComplEx
from kgcore.registries import MODELS


@MODELS.register("hole_complex")
class HolEComplEx(ComplEx):
    """f(s, p, o) = (2 / k) Re(sum_i r_i s_i conj(o_i)).

    Hayashi & Shimbo, "On the Equivalence of Holographic and Complex Embeddings for Link Prediction", ACL 2017: HolE
    and ComplEx are equal up to the Fourier transform. The paper's published code uses this form, so the
    paper's numbers for HolE are numbers of this model. `hole` computes the circular correlation itself.
    Embeddings: (k,) complex, stored as (2k,) real, real parts first. Range: all reals.
    """

    def __init__(self, k: int) -> None:
        super().__init__(k)
        self.factor = 2 / k
        # A score is a sum of products of three numbers. With this scale, initial scores are as large as ComplEx's.
        self.scale = ComplEx.scale * (k / 2) ** (1 / 3)
