#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "brigade/base/clock.h"
#include "brigade/io/file_system.h"
#include "brigade/summary/event.h"

namespace brigade::summary {

/// Which crashes flushed events survive.
enum class Durability {
  kProcess,  ///< A crash of this program. Costs almost nothing.
  kMachine,  ///< A crash of the machine too: each flush waits for the disk.
};

/// Options of EventFileWriter.
struct EventFileOptions {
  /// The maximum time that an event stays in memory: a killed program loses these events.
  std::chrono::milliseconds flush_every{2000};
  /// The capacity of the queue, in events and in bytes. `add` waits while the queue is full.
  std::size_t queue_events = 1000;
  std::size_t queue_bytes = 64 << 20;
  /// What flushed events survive.
  Durability durability = Durability::kProcess;
  /// How long `add` and `flush` wait for a slow disk before they give up with kDeadlineExceeded.
  std::chrono::milliseconds patience{60'000};
  /// A suffix of the file's name, which distinguishes the files of several writers in one folder.
  std::string suffix;
};

/// Writes events into a new file, as TensorBoard expects it: its name begins with
/// "events.out.tfevents." and has the time in seconds, the host, the process and a number. A
/// background thread writes: `add` takes about a microsecond, independent of the disk, and an event
/// is in the file after at most `flush_every`.
///
/// After a failed write (a full disk), every `add` and `flush` throws that error; events flushed
/// before stay readable. TensorBoard follows one growing file per folder, so give each writer its
/// own folder, or close one before creating the next.
///
/// Thread-safety: all functions from any thread; events of one thread keep their order.
class EventFileWriter {
 public:
  /// Creates the folder if it is missing, and the file with its first event, the version. Throws as
  /// `FileSystem` does, kInvalidArgument for invalid options. `clock` (time of day) is only used
  /// here.
  EventFileWriter(std::shared_ptr<io::FileSystem> files, const io::Path& directory,
                  const base::Clock& clock, EventFileOptions options = {});
  EventFileWriter(const EventFileWriter&) = delete;
  EventFileWriter& operator=(const EventFileWriter&) = delete;
  /// Closes. An error is only logged.
  ~EventFileWriter();

  /// Queues an event for writing. Throws the error of an earlier failed write, as `encode_event`
  /// does, and kFailedPrecondition after `close`.
  void add(const Event& event);
  /// Returns once everything added before is in the file. Throws as `add` does.
  void flush();
  /// Flushes and closes the file. Throws a write error that no call has thrown before. Calling it
  /// again does nothing.
  void close();

  const io::Path& path() const { return path_; }

 private:
  class Worker;
  io::Path path_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace brigade::summary
