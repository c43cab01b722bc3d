#include "brigade/ps/client/early_gradients.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>

#include "brigade/distribute/optimizer/sum_of_replicas.h"

namespace brigade::ps {

EarlyGradients::EarlyGradients(std::size_t variables, const std::vector<VariablePart>& parts,
                               ParameterClient& client, int replicas, std::size_t least_bytes)
    : parts_(parts),
      client_(client),
      least_bytes_(least_bytes),
      parts_of_(variables),
      bucket_of_(variables),
      delivered_(variables, std::vector<at::Tensor>(static_cast<std::size_t>(replicas))),
      sums_(variables),
      sent_(parts.size()),
      progress_(replicas),
      sender_([this](std::size_t bucket) { send(bucket); }) {
  for (std::size_t part = 0; part < parts.size(); ++part)
    parts_of_[parts[part].variable].push_back(part);
}

EarlyGradients::~EarlyGradients() {
  reset();
}

void EarlyGradients::ready(int replica, std::size_t variable, const at::Tensor& gradient) {
  if (has_failed_ || !bucket_of_[variable]) return;
  delivered_[variable][static_cast<std::size_t>(replica)] = gradient;
  if (!progress_.deliver(variable)) return;
  if (const auto bucket = progress_.filled(variable)) sender_.ready(*bucket);
}

void EarlyGradients::cancel(int /*replica*/) noexcept {
  has_failed_ = true;
  stop_sender();
}

void EarlyGradients::stop() {
  if (!is_enabled()) return;
  try {
    sender_.stop();
    if (!has_failed_) return;
  } catch (const std::exception&) {
    // Then the push sends all gradients.
  }
  client_.drop_early();
  std::ranges::fill(sums_, at::Tensor());
  std::ranges::fill(sent_, at::Tensor());
}

/// Called by the sender's thread, in the order of the buckets.
void EarlyGradients::send(std::size_t bucket) {
  const at::NoGradGuard no_grad;
  if (has_failed_) return;
  if (bucket == 0) {
    std::vector<std::size_t> expected;
    for (const std::size_t variable : order_)
      expected.insert(expected.end(), parts_of_[variable].begin(), parts_of_[variable].end());
    client_.begin_early(std::move(expected));
  }
  send_parts(order_[bucket]);
}

void EarlyGradients::send_parts(std::size_t variable) {
  sums_[variable] = distribute::sum_of_replicas(delivered_[variable]);
  for (const std::size_t part : parts_of_[variable]) {
    sent_[part] = parts_[part].of(sums_[variable]);
    client_.send_early(sent_[part]);
  }
}

void EarlyGradients::expect(std::span<const at::Tensor> gradients) {
  order_.clear();
  std::size_t bytes = 0;
  bool has_rows = false;
  for (std::size_t variable = parts_of_.size(); variable-- > 0;) {
    bool is_pushed = false;
    for (const std::size_t part : parts_of_[variable]) {
      const at::Tensor& gradient = gradients[part];
      if (!gradient.defined()) continue;
      is_pushed = true;
      if (gradient.layout() == at::kStrided)
        bytes += gradient.nbytes();
      else
        has_rows = true;
    }
    if (is_pushed) order_.push_back(variable);
  }
  if (has_rows || bytes < least_bytes_) order_.clear();
  std::ranges::fill(bucket_of_, std::nullopt);
  for (std::size_t i = 0; i < order_.size(); ++i) bucket_of_[order_[i]] = i;
  prepare();
}

void EarlyGradients::reset() noexcept {
  stop_sender();
  client_.drop_early();
  prepare();
}

void EarlyGradients::stop_sender() noexcept {
  try {
    sender_.stop();
  } catch (const std::exception&) {
    // What it has sent is dropped by the server.
  }
}

void EarlyGradients::prepare() {
  has_failed_ = false;
  std::ranges::fill(sums_, at::Tensor());
  std::ranges::fill(sent_, at::Tensor());
  for (auto& of_replicas : delivered_) std::ranges::fill(of_replicas, at::Tensor());
  progress_.start(bucket_of_, order_.size());
  sender_.start(order_.size());
}

}  // namespace brigade::ps
