#include "brigade/launch/rank_process.h"

#include <unistd.h>

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

}  // namespace brigade::launch
