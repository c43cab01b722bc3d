#include "brigade/launch/generation.h"

#include <algorithm>

namespace brigade::launch {

Generation::Generation(const std::vector<SpawnOptions>& processes, int first_rank,
                       LineRouter& router, std::chrono::milliseconds grace)
    : router_(router), grace_(grace) {
  for (const SpawnOptions& options : processes)
    processes_.emplace_back(first_rank + static_cast<int>(processes_.size()), options);
}

RankProcess* Generation::find(int rank) {
  const auto found = std::find_if(processes_.rbegin(), processes_.rend(),
                                  [&](const RankProcess& each) { return each.rank() == rank; });
  return found == processes_.rend() ? nullptr : &*found;
}

const RankProcess* Generation::find(int rank) const {
  return const_cast<Generation*>(this)->find(rank);
}

void Generation::start_again(int rank, const SpawnOptions& options) {
  end_output(rank);
  processes_.emplace_back(rank, options);
}

bool Generation::is_over() const {
  return std::ranges::none_of(processes_, &RankProcess::is_running);
}

void Generation::add_to(std::vector<pollfd>& waiting) const {
  if (router_.is_busy()) return;
  for (const RankProcess& process : processes_) process.add_to(waiting);
}

void Generation::pass_on_output() {
  for (RankProcess& process : processes_) process.pass_on(router_);
}

bool Generation::is_drained() const {
  return std::ranges::all_of(processes_, &RankProcess::is_drained);
}

void Generation::stop(int signal) {
  if (!is_stopping_) kill_at_ = Clock::now() + grace_;
  is_stopping_ = true;
  for (const RankProcess& process : processes_) {
    if (process.is_running()) process.signal(signal);
  }
}

void Generation::kill_overdue() {
  if (Clock::now() >= kill_at_) kill_all();
}

void Generation::kill_all() {
  is_stopping_ = true;
  kill_at_ = Clock::time_point::max();
  for (RankProcess& process : processes_) process.kill();
}

}  // namespace brigade::launch
