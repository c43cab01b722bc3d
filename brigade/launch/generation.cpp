#include "brigade/launch/generation.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace brigade::launch {

namespace {

constexpr std::size_t kPiece = 16 * 1024;
constexpr int kPiecesACall = 16;

const base::FileDescriptor& pipe_of(const ChildProcess& process, Stream stream) {
  return stream == Stream::kOutput ? process.output() : process.errors();
}

}  // namespace

RankProcess::RankProcess(int rank, const SpawnOptions& options) : rank_(rank), process_(options) {}

void RankProcess::kill() {
  if (ended_ || was_killed_) return;
  was_killed_ = true;
  process_.kill();
}

void RankProcess::add_to(std::vector<pollfd>& waiting) const {
  for (const Stream stream : kStreams) {
    if (is_open_[index_of(stream)])
      waiting.push_back({.fd = pipe_of(process_, stream).number(), .events = POLLIN, .revents = 0});
  }
}

void RankProcess::pass_on(LineRouter& router) {
  for (const Stream stream : kStreams) pass_on(router, stream);
}

void RankProcess::pass_on(LineRouter& router, Stream stream) {
  bool& is_open = is_open_[index_of(stream)];
  char piece[kPiece];
  for (int i = 0; is_open && i < kPiecesACall && !router.is_busy(); ++i) {
    const ssize_t count = ::read(pipe_of(process_, stream).number(), piece, sizeof(piece));
    if (count > 0) {
      router.write(rank_, stream, {piece, static_cast<std::size_t>(count)});
      continue;
    }
    // A program may close its output long before it ends.
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) is_open = false;
    return;
  }
}

bool RankProcess::notice_end() {
  if (ended_) return false;
  ended_ = process_.poll();
  return ended_.has_value();
}

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
  stop_some([](int) { return true; }, signal);
}

void Generation::stop_some(const std::function<bool(int rank)>& is_meant, int signal) {
  if (!is_stopping_) kill_at_ = Clock::now() + grace_;
  is_stopping_ = true;
  for (const RankProcess& process : processes_) {
    if (process.is_running() && is_meant(process.rank())) process.signal(signal);
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
