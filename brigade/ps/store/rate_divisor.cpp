#include "brigade/ps/store/rate_divisor.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <string>

#include "brigade/base/error.h"
#include "brigade/ps/store/store_keys.h"

namespace brigade::ps {

std::int64_t rate_divisor_of(std::optional<std::int64_t> staleness) {
  return std::max<std::int64_t>(1, staleness.value_or(0));
}

optim::Hyperparameters divided(optim::Hyperparameters hyperparameters, std::int64_t divisor) {
  hyperparameters.learning_rate /= static_cast<double>(divisor);
  return hyperparameters;
}

at::Tensor add_rate_divisor(UpdateRecord& push) {
  at::Tensor divisor = at::ones({}, at::kLong);
  push.header[keys::kRateDivisor] = true;
  push.tensors.push_back({std::string(keys::kRateDivisor), divisor});
  return divisor;
}

std::int64_t take_rate_divisor(UpdateRecord& push) {
  if (!push.header.has(keys::kRateDivisor)) return 1;
  const auto fail = [] {
    throw Error(ErrorCode::kDataLoss,
                "A push in a server's log lacks the divisor of its learning rate.");
  };
  if (push.tensors.empty()) fail();
  const at::Tensor tensor = push.tensors.back().tensor;
  push.tensors.pop_back();
  if (tensor.scalar_type() != at::kLong || tensor.numel() != 1) fail();
  const auto divisor = tensor.item<std::int64_t>();
  if (divisor < 1) fail();
  return divisor;
}

}  // namespace brigade::ps
