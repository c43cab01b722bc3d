#include "brigade/launch/rank_process.h"

#include <unistd.h>

#include <cerrno>

namespace brigade::launch {

namespace {

constexpr std::size_t kPiece = 16 * 1024;
constexpr int kPiecesATurn = 16;
constexpr Stream kStreams[] = {Stream::kOutput, Stream::kErrors};

std::size_t index_of(Stream stream) {
  return stream == Stream::kOutput ? 0 : 1;
}

const FileDescriptor& pipe_of(const ChildProcess& process, Stream stream) {
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

bool RankProcess::pass_on(LineRouter& router) {
  bool was_something = false;
  for (const Stream stream : kStreams) was_something |= pass_on(router, stream);
  return was_something;
}

bool RankProcess::pass_on(LineRouter& router, Stream stream) {
  bool& is_open = is_open_[index_of(stream)];
  char piece[kPiece];
  for (int turn = 0; is_open && turn < kPiecesATurn; ++turn) {
    const ssize_t count = ::read(pipe_of(process_, stream).number(), piece, sizeof(piece));
    if (count > 0) {
      router.write(rank_, stream, {piece, static_cast<std::size_t>(count)});
      continue;
    }
    // A program may close its output long before its end.
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) is_open = false;
    return turn > 0;
  }
  return is_open;
}

void RankProcess::pass_on_rest(LineRouter& router, std::chrono::steady_clock::time_point deadline) {
  while (pass_on(router) || is_open_[0] || is_open_[1]) {
    if (std::chrono::steady_clock::now() > deadline) break;
    std::vector<pollfd> pipes;
    add_to(pipes);
    ::poll(pipes.data(), pipes.size(), 10);
  }
  router.end(rank_);
}

bool RankProcess::notice_end() {
  if (ended_) return false;
  ended_ = process_.poll();
  return ended_.has_value();
}

}  // namespace brigade::launch
