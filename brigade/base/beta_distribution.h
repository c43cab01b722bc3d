#pragma once

#include "brigade/base/random.h"

namespace brigade::base {

/// A number of the beta distribution, in [0, 1]: the fraction x / (x + y) of two gamma-distributed
/// ones. Small parameters give numbers near 0 and 1, (1, 1) gives uniform ones, large equal
/// parameters numbers near 0.5. The number of draws from `rng` varies. Its last bits depend on the
/// platform's `log`, `exp` and `cos`. Throws kInvalidArgument unless both parameters are above 0
/// and finite. TensorFlow: tfp.distributions.Beta; PyTorch: torch.distributions.Beta.
double random_beta(double alpha, double beta, CounterRng& rng);

}  // namespace brigade::base
