#include "brigade/distribute/wire_buffers.h"

#include <algorithm>

#include "brigade/comm/reduce_kernel.h"

namespace brigade::distribute {

namespace {

// Shares begin at whole cache lines, so that two replicas never write into the same one.
constexpr std::int64_t kAlignment = 64;

std::int64_t cut_at(std::int64_t size, int share, int shares) {
  return share == shares ? size : size * share / shares / kAlignment * kAlignment;
}

}  // namespace

WireBuffers::WireBuffers(const optim::OptimizerState& state,
                         std::shared_ptr<comm::ProcessCommunicator> workers,
                         std::int64_t bytes_per_pack)
    : state_(state),
      workers_(std::move(workers)),
      bytes_per_pack_(bytes_per_pack),
      places_(state.variables().size()),
      sums_(state.variables().size()) {
  lay_out();
}

void WireBuffers::lay_out() {
  const auto& variables = state_.variables();
  for (std::size_t i = variables.size(); i-- > 0;) {
    if (state_.is_frozen(i)) continue;
    auto buffer = std::ranges::find(buffers_, variables[i].dtype(), &Buffer::dtype);
    if (buffer == buffers_.end()) {
      buffers_.push_back({.dtype = variables[i].dtype()});
      buffer = std::prev(buffers_.end());
    }
    places_[i] = {.buffer = static_cast<std::size_t>(buffer - buffers_.begin()),
                  .offset = buffer->size,
                  .is_sent = true};
    buffer->variables.push_back(i);
    buffer->size += variables[i].numel();
  }
  const auto presences = static_cast<std::int64_t>(variables.size());
  for (Buffer& buffer : buffers_) {
    const std::int64_t extra = &buffer == &buffers_.front() ? presences : 0;
    buffer.values = workers_->make_buffer(buffer.size + extra, buffer.dtype);
    if (extra > 0) presence_ = buffer.values.narrow(0, buffer.size, extra);
    const std::int64_t all = buffer.size + extra;
    const std::int64_t wanted = bytes_per_pack_ / buffer.values.element_size();
    const std::int64_t pack = wanted > 0 ? std::min(wanted, all) : all;
    for (std::int64_t at = 0; at < all; at += pack)
      buffer.packs.push_back(buffer.values.narrow(0, at, std::min(pack, all - at)));
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (!places_[i].is_sent) continue;
    sums_[i] = buffers_[places_[i].buffer]
                   .values.narrow(0, places_[i].offset, variables[i].numel())
                   .view(variables[i].shape());
  }
}

void WireBuffers::fill(std::span<const std::span<const at::Tensor>> parts, int share, int shares) {
  for (const Buffer& buffer : buffers_)
    fill_part(buffer, parts, cut_at(buffer.size, share, shares),
              cut_at(buffer.size, share + 1, shares));
  if (share == 0) write_presence(parts);
}

void WireBuffers::fill_part(const Buffer& buffer,
                            std::span<const std::span<const at::Tensor>> parts, std::int64_t begin,
                            std::int64_t end) {
  std::vector<at::Tensor> of_variable(parts.size());
  for (const std::size_t i : buffer.variables) {
    const std::int64_t offset = places_[i].offset;
    const std::int64_t from = std::max(offset, begin);
    const std::int64_t to = std::min(offset + state_.variables()[i].numel(), end);
    if (from >= to) continue;
    for (std::size_t replica = 0; replica < parts.size(); ++replica)
      of_variable[replica] = parts[replica][i];
    comm::add_in_order(of_variable, from - offset, to - offset, buffer.values, from);
  }
}

void WireBuffers::write_presence(std::span<const std::span<const at::Tensor>> parts) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const bool is_there =
        places_[i].is_sent &&
        std::ranges::any_of(parts, [&](const auto& of_replica) { return of_replica[i].defined(); });
    presence_[static_cast<std::int64_t>(i)].fill_(is_there ? 1 : 0);
  }
}

void WireBuffers::reduce() {
  for (const Buffer& buffer : buffers_) {
    for (const at::Tensor& pack : buffer.packs)
      workers_->all_reduce({&pack, 1}, comm::ReduceOp::kSum)->wait();
  }
}

std::vector<at::Tensor> WireBuffers::sums() const {
  if (buffers_.empty()) return sums_;
  const at::Tensor counts = presence_.to(at::kDouble);
  const double* there = counts.const_data_ptr<double>();
  std::vector<at::Tensor> sums(sums_.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (there[i] > 0) sums[i] = sums_[i];
  }
  return sums;
}

}  // namespace brigade::distribute
