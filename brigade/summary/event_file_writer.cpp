#include "brigade/summary/event_file_writer.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "brigade/base/environment.h"
#include "brigade/base/error.h"
#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/concurrency/mutex.h"
#include "brigade/io/record_writer.h"
#include "brigade/summary/event_queue.h"

namespace brigade::summary {
namespace {

using base::str_cat;
using concurrency::Mutex;
using concurrency::MutexLock;

constexpr const char* kVersion = "brain.Event:2";  // the version that TensorBoard reads

void check_options(const EventFileOptions& options) {
  check_argument(options.flush_every.count() > 0, "EventFileOptions::flush_every is ",
                 options.flush_every.count(), " ms; it must be 1 ms or more");
  check_argument(options.queue_events > 0 && options.queue_bytes > 0,
                 "EventFileOptions: a queue for 0 events or 0 bytes cannot hold any");
  check_argument(options.suffix.find('/') == std::string::npos, "EventFileOptions::suffix is \"",
                 options.suffix, "\"; it is part of a file's name and must not have a '/'");
}

double seconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

struct NewFile {
  io::Path path;
  std::unique_ptr<io::WritableFile> file;
};

NewFile create_file(io::FileSystem& files, const io::Path& directory, double now,
                    const std::string& suffix) {
  constexpr int kAttempts = 10'000;
  std::array<char, 24> seconds{};  // ten digits, so that names sort as times do
  std::snprintf(seconds.data(), seconds.size(), "%010lld", static_cast<long long>(now));
  const std::string stem =
      str_cat("events.out.tfevents.", seconds.data(), ".", base::host_name(), ".", ::getpid(), ".");
  for (int n = 0;; ++n) {
    io::Path path = directory / str_cat(stem, n, suffix);
    try {
      auto file = files.create(path, io::CreateMode::kExclusive);
      return {std::move(path), std::move(file)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kAlreadyExists || n + 1 == kAttempts) throw;
    }
  }
}

}  // namespace

/// Owns the thread that writes the queue to the file.
class EventFileWriter::Worker {
 public:
  Worker(std::unique_ptr<io::WritableFile> file, const Event& first,
         const EventFileOptions& options)
      : durability_(options.durability),
        records_(std::move(file)),
        queue_({.events = options.queue_events,
                .bytes = options.queue_bytes,
                .hold = options.flush_every,
                .patience = options.patience}) {
    write({encode_event(first)});
    start();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { stop(); }

  EventQueue& queue() { return queue_; }

  /// Ends the thread after it has written the remaining events.
  void stop() {
    queue_.close();
    const MutexLock lock(stopping_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void start() {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      throw Error(ErrorCode::kResourceExhausted,
                  "cannot start a thread that writes events: ", error.what());
    }
  }

  void run() {
    pthread_setname_np(pthread_self(), "event-writer");
    try {
      while (true) {
        const EventQueue::Batch batch = queue_.take();
        write(batch.events);
        if (batch.is_last) records_.close();
        queue_.mark_written(batch);
        if (batch.is_last) return;
      }
    } catch (const Error& error) {
      queue_.fail(error);
    } catch (const std::exception& error) {
      queue_.fail(Error(ErrorCode::kResourceExhausted, "event file: ", error.what()));
    }
  }

  void write(const std::vector<std::string>& events) {
    for (const std::string& event : events) records_.write(io::as_bytes(event));
    if (durability_ == Durability::kMachine) {
      records_.sync();
    } else {
      records_.flush();
    }
  }

  const Durability durability_;
  io::RecordWriter records_;  // used by the thread only, once it runs
  EventQueue queue_;
  Mutex stopping_;  // one thread at a time joins
  std::thread thread_;
};

EventFileWriter::EventFileWriter(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                                 const base::Clock& clock, EventFileOptions options) {
  check_argument(files != nullptr, "EventFileWriter: needs a file system");
  check_options(options);
  const double now = seconds_of(clock.wall_time());
  files->create_directories(directory);
  NewFile created = create_file(*files, directory, now, options.suffix);
  path_ = std::move(created.path);
  const Event first{.wall_time = now, .step = 0, .content = FileVersion{kVersion}};
  worker_ = std::make_unique<Worker>(std::move(created.file), first, options);
  if (options.durability == Durability::kMachine) files->sync_directory(directory);
}

EventFileWriter::~EventFileWriter() {
  try {
    close();
  } catch (const std::exception& error) {
    base::log_error("events at the end of ", path_, " are lost: ", error.what());
  }
}

void EventFileWriter::add(const Event& event) {
  worker_->queue().push(encode_event(event));
}

void EventFileWriter::flush() {
  worker_->queue().wait_until_written();
}

void EventFileWriter::close() {
  worker_->stop();
  if (const std::optional<Error> failure = worker_->queue().take_unseen_failure()) throw *failure;
}

}  // namespace brigade::summary
