#pragma once

#include <brigade/brigade.h>

/// The focal loss (Lin et al., 2017): cross entropy that counts an example less the better it is
/// classified. Scores [N, classes] and labels [N] in; one value per example [N] out, so that the
/// gradient is the mean over all replicas' examples.
inline at::Tensor focal_loss(const at::Tensor& scores, const at::Tensor& labels,
                             double focus = 1.0) {
  const at::Tensor log_probability =
      scores.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1);
  return -(1 - log_probability.exp()).pow(focus) * log_probability;
}
