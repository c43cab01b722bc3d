#include "brigade/launch/output_writer.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <system_error>
#include <utility>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"

namespace brigade::launch {

namespace {

using Clock = std::chrono::steady_clock;

// The time in which the thread ends once asked to; only a blocking write takes longer.
constexpr std::chrono::milliseconds kEndTime{200};

std::int64_t count_lines(std::string_view text) {
  const auto ends = std::ranges::count(text, '\n');
  return ends + (text.empty() || text.back() == '\n' ? 0 : 1);
}

/// The text of one write: at most what a pipe takes atomically, and whole lines if they fit,
/// because other programs may write to the same pipe.
std::string_view first_part(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  text = text.substr(0, PIPE_BUF);
  const std::size_t end = text.rfind('\n');
  return end == std::string_view::npos ? text : text.substr(0, end + 1);
}

/// While it lives, new threads block all signals but SIGPIPE, which the writing thread gets.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t set;
    sigfillset(&set);
    sigdelset(&set, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &set, &former_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t former_;
};

}  // namespace

struct OutputWriter::Shared {
  Shared(int number, OutputWriterOptions chosen)
      : descriptor(number), options(chosen), give_up(::eventfd(0, EFD_CLOEXEC)) {}

  void record_progress() {
    const concurrency::MutexLock lock(mutex);
    progress_at = Clock::now();
    changed.notify_all();
  }

  /// Writes the text unless that fails; returns what is left when the writer gives up.
  std::string_view write_out(std::string_view text) {
    while (!text.empty()) {
      pollfd both[] = {{.fd = descriptor, .events = POLLOUT, .revents = 0},
                       {.fd = give_up.number(), .events = POLLIN, .revents = 0}};
      ::poll(both, 2, -1);
      if (both[1].revents != 0) return text;
      const std::string_view part = first_part(text);
      const ssize_t count = ::write(descriptor, part.data(), part.size());
      if (count < 0 && errno != EINTR && errno != EAGAIN) {
        const concurrency::MutexLock lock(mutex);
        if (!error) error = errno;
        failed += count_lines(text);
        return {};
      }
      if (count <= 0) continue;
      text.remove_prefix(static_cast<std::size_t>(count));
      record_progress();
    }
    return text;
  }

  const int descriptor;
  const OutputWriterOptions options;
  const base::FileDescriptor give_up;
  mutable concurrency::Mutex mutex;
  concurrency::Condition changed;
  std::deque<std::string> waiting BRIGADE_GUARDED_BY(mutex);
  std::size_t size BRIGADE_GUARDED_BY(mutex) = 0;  // of all that is not written, in bytes
  Clock::time_point progress_at BRIGADE_GUARDED_BY(mutex) = Clock::now();
  std::int64_t dropped BRIGADE_GUARDED_BY(mutex) = 0;
  std::int64_t failed BRIGADE_GUARDED_BY(mutex) = 0;
  std::optional<int> error BRIGADE_GUARDED_BY(mutex);
  bool is_ending BRIGADE_GUARDED_BY(mutex) = false;
  bool has_ended BRIGADE_GUARDED_BY(mutex) = false;
};

OutputWriter::OutputWriter(int descriptor, OutputWriterOptions options)
    : shared_(std::make_shared<Shared>(descriptor, options)) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([shared = shared_] { run(*shared); });
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kResourceExhausted,
                "No thread could be started for the output: ", error.what(),
                "; see the limit of processes and threads (ulimit -u).");
  }
}

OutputWriter::~OutputWriter() {
  finish(std::chrono::milliseconds(0));
}

void OutputWriter::run(Shared& shared) {
  for (;;) {
    std::string text;
    {
      const concurrency::MutexLock lock(shared.mutex);
      while (shared.waiting.empty() && !shared.is_ending) shared.changed.wait(shared.mutex);
      if (shared.waiting.empty()) break;
      text = std::move(shared.waiting.front());
      shared.waiting.pop_front();
    }
    const std::string_view left = shared.write_out(text);
    const concurrency::MutexLock lock(shared.mutex);
    shared.dropped += count_lines(left);
    shared.size -= text.size();
    shared.changed.notify_all();
  }
  const concurrency::MutexLock lock(shared.mutex);
  shared.has_ended = true;
  shared.changed.notify_all();
}

void OutputWriter::write(std::string_view lines) {
  if (lines.empty()) return;
  const concurrency::MutexLock lock(shared_->mutex);
  if (shared_->is_ending || shared_->size + lines.size() > shared_->options.capacity) {
    shared_->dropped += count_lines(lines);
    return;
  }
  if (shared_->size == 0) shared_->progress_at = Clock::now();
  shared_->size += lines.size();
  shared_->waiting.emplace_back(lines);
  shared_->changed.notify_all();
}

bool OutputWriter::is_busy() const {
  const concurrency::MutexLock lock(shared_->mutex);
  return shared_->size > shared_->options.capacity / 2 &&
         Clock::now() < shared_->progress_at + shared_->options.stall;
}

bool OutputWriter::has_room() const {
  const concurrency::MutexLock lock(shared_->mutex);
  return shared_->size <= shared_->options.capacity / 2;
}

void OutputWriter::finish(std::chrono::milliseconds patience, Clock::time_point deadline) {
  if (!thread_.joinable()) return;
  {
    const concurrency::MutexLock lock(shared_->mutex);
    shared_->is_ending = true;
    shared_->progress_at = Clock::now();
    shared_->changed.notify_all();
    while (!shared_->has_ended && Clock::now() < deadline &&
           Clock::now() < shared_->progress_at + patience)
      shared_->changed.wait_until(shared_->mutex,
                                  std::min(deadline, shared_->progress_at + patience));
    for (const std::string& text : std::exchange(shared_->waiting, {})) {
      shared_->dropped += count_lines(text);
      shared_->size -= text.size();
    }
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(shared_->give_up.number(), &one, sizeof(one));
  bool has_ended = false;
  {
    const auto latest = Clock::now() + kEndTime;
    const concurrency::MutexLock lock(shared_->mutex);
    while (!shared_->has_ended && Clock::now() < latest)
      shared_->changed.wait_until(shared_->mutex, latest);
    has_ended = shared_->has_ended;
  }
  // Another program may have filled the pipe between `poll` and `write`.
  has_ended ? thread_.join() : thread_.detach();
}

std::int64_t OutputWriter::dropped_lines() const {
  const concurrency::MutexLock lock(shared_->mutex);
  return shared_->dropped;
}

std::int64_t OutputWriter::failed_lines() const {
  const concurrency::MutexLock lock(shared_->mutex);
  return shared_->failed;
}

std::optional<int> OutputWriter::error() const {
  const concurrency::MutexLock lock(shared_->mutex);
  return shared_->error;
}

}  // namespace brigade::launch
