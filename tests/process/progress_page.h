#pragma once

#include <cstdint>
#include <filesystem>

namespace brigade::process {

/// What the training thread is doing.
enum class TrainerPhase : std::uint32_t {
  kStartUp,  ///< before the session looks for a checkpoint
  kLooking,  ///< the session is being made, and has not begun to read a checkpoint
  kRestore,  ///< reads a checkpoint and takes it over
  kBetween,  ///< hooks, copies for a save
  kStep,     ///< draws a batch and trains on it
  kEnd,      ///< after the last step
};

/// What the thread that writes checkpoints is doing.
enum class WriterPhase : std::uint32_t {
  kIdle,
  kWriting,     ///< files into a folder that has no checkpoint's name yet
  kPublishing,  ///< the folder gets its name, and `latest` is pointed at it
  kRemoving,    ///< older checkpoints go
};

/// The progress of a training in a memory-mapped file, which outlives the process however it dies.
/// The test's driver reads the file; see kill_driver.py for the layout.
///
/// Thread-safety: all functions from any thread.
class ProgressPage {
 public:
  /// Maps the file, which must exist and be 4096 bytes long. Throws kUnavailable if it cannot.
  explicit ProgressPage(const std::filesystem::path& path);
  ~ProgressPage();
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  void set(TrainerPhase phase);
  void set(WriterPhase phase);
  TrainerPhase trainer() const;
  WriterPhase writer() const;
  /// Steps made so far.
  void set_step(std::int64_t step);
  /// The step of the newest checkpoint that has its name.
  void set_published(std::int64_t step);
  /// The step that this process began with, and how many checkpoints were passed over as broken.
  void set_begun(std::int64_t step, std::int64_t broken);

 private:
  struct Layout {
    std::uint32_t trainer, writer;
    std::int64_t step, published, begun, broken;
  };
  Layout* page_;
};

}  // namespace brigade::process
