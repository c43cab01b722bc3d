#include "brigade/comm/local/local_group.h"

#include "brigade/base/strings.h"

namespace brigade::comm {

namespace {

std::optional<c10::Device> first_device(std::span<const at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) return tensor.device();
  }
  return std::nullopt;
}

}  // namespace

LocalGroup::LocalGroup(int world_size, LocalGroupOptions options)
    : barrier_({.parties = world_size,
                .timeout = options.timeout,
                .spin = options.spin,
                .party_name = "replica"}),
      published_(world_size),
      fences_(world_size),
      devices_(world_size),
      calls_(world_size),
      call_counts_(world_size, 0),
      clocks_(world_size, nullptr) {}

void LocalGroup::publish(int rank, AnnouncedCall call, std::span<const at::Tensor> tensors) {
  published_[rank] = tensors;
  devices_[rank] = first_device(tensors);
  announce(rank, call);
  fence_and_wait(rank);
  check_same_call(rank);
}

void LocalGroup::withdraw_after_failure(int rank) noexcept {
  // Others may still read what this rank has published. Their failure is reported by the error that
  // this rank throws.
  try {
    withdraw(rank);
  } catch (const Error&) {
  }
}

void LocalGroup::barrier(int rank) {
  announce(rank, {.name = "barrier"});
  wait_for_all(rank);
  check_same_call(rank);
}

void LocalGroup::wait_for_all(int rank) {
  const PhaseScope waiting(clock(rank), StepPhase::kWait);
  barrier_.arrive_and_wait(rank);
}

void LocalGroup::announce(int rank, AnnouncedCall call) {
  calls_[rank][++call_counts_[rank] % 2] = call;
}

void LocalGroup::check_same_call(int rank) {
  const std::size_t parity = call_counts_[rank] % 2;
  const AnnouncedCall& mine = calls_[rank][parity];
  for (int other = 0; other < world_size(); ++other) {
    const AnnouncedCall& theirs = calls_[other][parity];
    if (theirs == mine) continue;
    // Every rank sees some other rank that differs, so all fail and none reads.
    fail(rank,
         Error(ErrorCode::kFailedPrecondition,
               base::str_cat(
                   "replica ", rank, " is in ", mine.name, " (root ", mine.root, ") while replica ",
                   other, " is in ", theirs.name, " (root ", theirs.root,
                   "): every replica must make the same collective calls, in the same order.")));
  }
}

void LocalGroup::reset() {
  barrier_.reset();
  call_counts_.assign(call_counts_.size(), 0);
}

void LocalGroup::fence_and_wait(int rank) {
  const std::optional<c10::Device> device = devices_[rank];
  if (device) fences_[rank].record(*device);
  wait_for_all(rank);
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank) continue;
    if (device) fences_[other].wait(*device);
    // In a group with GPUs a rank on CPU reads through this thread's stream of their device.
    if (devices_[other]) fences_[other].wait(*devices_[other]);
  }
}

}  // namespace brigade::comm
