#include "brigade/distribute/pipeline/stage_channels.h"

#include <array>
#include <numeric>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/base/strings.h"

namespace brigade::distribute {

namespace {

using comm::TensorChannel;

std::unique_ptr<TensorChannel> make_channel(const WorkerGroup& workers, int source,
                                            const std::vector<int>& receivers,
                                            const std::string& what,
                                            std::chrono::milliseconds timeout) {
  const std::string name = base::str_cat("pipeline/", workers.membership->generation(), "/", what,
                                         " of worker ", source);
  return std::make_unique<TensorChannel>(
      comm::make_channel_group(workers.membership, source, receivers, name, workers.communication),
      comm::TensorChannelOptions{.name = base::str_cat(what, " of worker ", source),
                                 .timeout = timeout});
}

/// Calls `act` with each channel that exists.
template <class Act>
void for_each(const StageChannels& channels, const Act& act) {
  for (const auto* channel : {&channels.activations_in, &channels.activations_out,
                              &channels.gradients_in, &channels.gradients_out, &channels.results})
    if (*channel) act(**channel);
}

}  // namespace

void StageChannels::begin_step(std::int64_t step) const {
  for_each(*this, [&](TensorChannel& channel) {
    if (!channel.is_source()) channel.begin_step(step);
  });
}

void StageChannels::end_step(std::int64_t step, const std::optional<std::string>& failure) const {
  std::optional<Error> error;
  if (failure)
    error = Error(*has_lost_member ? ErrorCode::kUnavailable : ErrorCode::kAborted, *failure);
  for_each(*this, [&](TensorChannel& channel) {
    if (channel.is_source()) channel.end_step(step, error);
  });
}

std::vector<at::Tensor> StageChannels::receive(TensorChannel& channel,
                                               const comm::MessageKey& key) const {
  try {
    return channel.receive(key);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) *has_lost_member = true;
    throw;
  }
}

void StageChannels::abort(const std::string& reason) const {
  for_each(*this, [&](TensorChannel& channel) {
    if (!channel.is_source()) channel.abort(reason);
  });
}

std::int64_t StageChannels::bytes_sent() const {
  std::int64_t bytes = 0;
  for_each(*this, [&](const TensorChannel& channel) { bytes += channel.bytes_sent(); });
  return bytes;
}

// All make theirs in one order, the pairs of the first workers first, so that none waits for one
// that waits for it.
StageChannels make_stage_channels(const WorkerGroup& workers, StageOrder order,
                                  std::chrono::milliseconds timeout) {
  StageChannels channels;
  const int own = workers.index();
  const int last = workers.count() - 1;
  const int pairs = order == StageOrder::kRing ? last + 1 : last;
  const auto make = [&](int source, const std::vector<int>& receivers, const char* what) {
    return make_channel(workers, source, receivers, what, timeout);
  };
  for (int from = 0; from < pairs; ++from) {
    const int to = from == last ? 0 : from + 1;
    if (own == to) {
      channels.activations_in = make(from, {to}, "activations");
      channels.gradients_out = make(to, {from}, "gradients");
    }
    if (own == from) {
      channels.activations_out = make(from, {to}, "activations");
      channels.gradients_in = make(to, {from}, "gradients");
    }
  }
  std::vector<int> others(static_cast<std::size_t>(last));
  std::iota(others.begin(), others.end(), 0);
  channels.results = make(last, others, "results");
  return channels;
}

}  // namespace brigade::distribute
