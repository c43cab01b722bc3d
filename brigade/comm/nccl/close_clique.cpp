#include "brigade/comm/nccl/close_clique.h"

#include <chrono>
#include <exception>
#include <thread>

namespace brigade::comm {

namespace {

bool has_closed(NcclClique& clique) {
  for (int rank = 0; rank < clique.local_size(); ++rank) {
    const NcclStatus::State state = clique.status(rank).state;
    if (state != NcclStatus::State::kDone && state != NcclStatus::State::kFailed) return false;
  }
  return true;
}

}  // namespace

void close_clique(NcclClique& clique, const std::function<bool()>& gives_up) noexcept {
  try {
    clique.start_closing();
    while (!has_closed(clique) && !gives_up())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // polls: NCCL notifies nobody
  } catch (const std::exception&) {
  }
}

}  // namespace brigade::comm
