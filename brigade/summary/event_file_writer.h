#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/event.h"

namespace brigade::summary {

/// What flushed events outlive.
enum class Durability {
  kProcess,  ///< This program's end, however sudden. Costs next to nothing.
  kMachine,  ///< The machine's crash too: each flush waits for the disk.
};

struct EventFileOptions {
  /// How long an event waits in memory at most: what a killed program loses.
  std::chrono::milliseconds flush_every{2000};
  /// An event to be added to so many, or so many bytes, that wait already, waits for room.
  std::size_t queue_events = 1000;
  std::size_t queue_bytes = 64 << 20;
  Durability durability = Durability::kProcess;
  /// How long `add` and `flush` wait for a slow disk before they give up with kDeadlineExceeded.
  std::chrono::milliseconds patience{60'000};
  /// Comes last in the file's name: keeps apart files that several writers have in one folder.
  std::string suffix;
};

/// Writes events into a file of its own, `events.out.tfevents.<seconds>.<host>.<process>.<n>`, as
/// TensorBoard expects it. A thread of its own does the writing: `add` takes about a microsecond,
/// whatever the disk does, and what was added is in the file `flush_every` later at the latest.
///
/// A failed write (a full disk) ends the writing: from then on every `add` and `flush` throws that
/// error; what was flushed before stays readable. TensorBoard reads one growing file a folder, so
/// give each writer its own folder, or close one before the next.
///
/// Thread-safety: all functions from any thread; events of one thread keep their order.
class EventFileWriter {
 public:
  /// Makes the folder if there is none, and the file with its first event, the version. Throws as
  /// `FileSystem` does, kInvalidArgument for options that cannot work. `clock` (time of day) is
  /// only used here.
  EventFileWriter(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                  const base::Clock& clock, EventFileOptions options = {});
  EventFileWriter(const EventFileWriter&) = delete;
  EventFileWriter& operator=(const EventFileWriter&) = delete;
  /// Closes; an error then goes to the log.
  ~EventFileWriter();

  /// Hands an event over to be written. Throws what a write before it failed with, as
  /// `encode_event` does, and kFailedPrecondition after `close`.
  void add(const Event& event);
  /// Returns once everything added before is in the file. Throws as `add` does.
  void flush();
  /// Flushes and closes the file. Throws an error of the writing that no call has thrown before.
  /// Calling it again does nothing.
  void close();

  const io::Path& path() const { return path_; }

 private:
  class Worker;
  io::Path path_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace brigade::summary
