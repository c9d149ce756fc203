"""One ratio for each answer, the geometric mean of its tokens' ratios: GSPO, arXiv:2507.18071"""

from dataclasses import dataclass

from isentropic.algorithm.ratio import Ratio
from isentropic.batch import Mask, PerToken
from isentropic.reductions import row_mean


@dataclass(frozen=True)
class GeometricRatio(Ratio):
    """GSPO-token, sg(s) * p / sg(p): every token has its answer's ratio as value, and its own log-prob's gradient.

    So advantages may differ from token to token; where they do not, and answers are averaged over their tokens, the
    gradient is that of the ratio of the whole answer. The mean is over the tokens that take part. Log-ratios are
    limited to 20 either way, where they have no gradient.
    """

    def __call__(self, log_ratio: PerToken, mask: Mask) -> PerToken:
        log_ratio = log_ratio.clamp(-20, 20)
        return (row_mean(log_ratio, mask)[:, None].detach() + log_ratio - log_ratio.detach()).exp()
