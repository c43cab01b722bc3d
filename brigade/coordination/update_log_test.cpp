#include "brigade/coordination/update_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::coordination {
namespace {

using io::CrashingFileSystem;
using io::FaultyFileSystem;
using io::MemoryFileSystem;
using Records = std::map<std::int64_t, std::string>;

const io::Path kFolder = "/server/log";

UpdateLog::Time soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(30);
}

std::int64_t commit(UpdateLog& log, const std::string& record) {
  const std::int64_t number = log.append(record);
  log.wait_committed(number, soon());
  return number;
}

/// Opens the log and returns what it replays.
Records replay(io::FileSystem& files, std::int64_t after = 0) {
  Records records;
  const UpdateLog log(files, kFolder, after, [&](std::int64_t number, std::string_view record) {
    EXPECT_TRUE(records.emplace(number, record).second);
  });
  return records;
}

void ignore(std::int64_t, std::string_view) {}

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST(UpdateLog, ReplaysWhatWasCommittedAndContinuesItsNumbers) {
  MemoryFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore);
    EXPECT_EQ(commit(log, "one"), 1);
    EXPECT_EQ(commit(log, ""), 2);
    EXPECT_EQ(log.committed(), 2);
  }
  {
    Records records;
    UpdateLog log(files, kFolder, 0, [&](auto number, auto record) { records[number] = record; });
    EXPECT_EQ(records, (Records{{1, "one"}, {2, ""}}));
    EXPECT_EQ(commit(log, "three"), 3);
  }
  EXPECT_EQ(replay(files, 1), (Records{{2, ""}, {3, "three"}})) << "only what the snapshot lacks";
}

TEST(UpdateLog, SaysHowLongEachSyncTook) {
  MemoryFileSystem files;
  int syncs = 0;
  UpdateLog log(files, kFolder, 0, ignore, {.on_sync = [&](std::chrono::nanoseconds time) {
                  EXPECT_GE(time.count(), 0);
                  ++syncs;
                }});
  commit(log, "one");
  EXPECT_EQ(syncs, 1);
  log.append("two");
  commit(log, "three");
  EXPECT_EQ(syncs, 2) << "two records share a sync";
}

TEST(UpdateLog, ARecordIsOnTheDiskOnlyOnceItWasWaitedFor) {
  MemoryFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore);
    commit(log, "kept");
    log.append("lost");
    EXPECT_EQ(log.committed(), 1);
  }
  EXPECT_EQ(replay(files), (Records{{1, "kept"}}));
}

TEST(UpdateLog, WhatWasWrittenBeforeItsSyncIsCommittedByIt) {
  FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
  const std::string long_record(200'000, 'x');
  {
    UpdateLog log(files, kFolder, 0, ignore);
    const std::int64_t first = log.append(long_record);
    log.write_pending();
    EXPECT_EQ(log.committed(), 0);
    const std::size_t before = files.operations();
    log.write_pending();
    EXPECT_EQ(files.operations(), before) << "nothing waits";
    const std::int64_t second = log.append("second");
    log.wait_committed(second, soon());
    EXPECT_EQ(log.committed(), second);
    EXPECT_LE(files.operations() - before, 2u) << "one write, one sync";
    log.wait_committed(first, soon());
    log.append("lost");
  }
  EXPECT_EQ(replay(files), (Records{{1, long_record}, {2, "second"}}));
}

TEST(UpdateLog, AWriteBeforeTheSyncThatFailsEndsTheLog) {
  FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
  UpdateLog log(files, kFolder, 0, ignore);
  commit(log, "kept");
  const std::int64_t number = log.append(std::string(200'000, 'x'));
  files.inject({.code = ErrorCode::kResourceExhausted});
  EXPECT_EQ(code_of([&] { log.write_pending(); }), ErrorCode::kResourceExhausted);
  EXPECT_TRUE(log.has_failed());
  EXPECT_EQ(code_of([&] { log.wait_committed(number, soon()); }), ErrorCode::kDataLoss);
  EXPECT_NO_THROW(log.write_pending());
}

/// Forwards to a file system in memory; syncs of files wait until `open_gate`.
class GatedFileSystem final : public io::FileSystem {
 public:
  void close_gate() { set_gate(false); }
  void open_gate() { set_gate(true); }
  /// Returns once a sync waits.
  void await_sync() {
    std::unique_lock lock(gate_->mutex);
    ASSERT_TRUE(gate_->changed.wait_for(lock, std::chrono::seconds(20),
                                        [&] { return gate_->waiting > 0; }));
  }

  std::string read(const io::Path& path) const override { return memory_.read(path); }
  std::unique_ptr<io::ReadableFile> open(const io::Path& path) const override {
    return memory_.open(path);
  }
  std::unique_ptr<io::WritableFile> create(const io::Path& path, io::CreateMode mode) override {
    return std::make_unique<File>(memory_.create(path, mode), gate_);
  }
  void rename(const io::Path& from, const io::Path& to) override { memory_.rename(from, to); }
  bool remove(const io::Path& path) override { return memory_.remove(path); }
  std::optional<io::FileInfo> info(const io::Path& path) const override {
    return memory_.info(path);
  }
  std::vector<std::string> list(const io::Path& directory) const override {
    return memory_.list(directory);
  }
  void create_directories(const io::Path& directory) override {
    memory_.create_directories(directory);
  }
  void sync_directory(const io::Path& directory) override { memory_.sync_directory(directory); }

 private:
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_open = true;
    int waiting = 0;
  };
  class File final : public io::WritableFile {
   public:
    File(std::unique_ptr<io::WritableFile> below, std::shared_ptr<Gate> gate)
        : below_(std::move(below)), gate_(std::move(gate)) {}
    void write(std::span<const std::byte> bytes) override { below_->write(bytes); }
    void sync() override {
      {
        std::unique_lock lock(gate_->mutex);
        ++gate_->waiting;
        gate_->changed.notify_all();
        gate_->changed.wait_for(lock, std::chrono::seconds(20), [&] { return gate_->is_open; });
        --gate_->waiting;
      }
      below_->sync();
    }
    void close() override { below_->close(); }

   private:
    std::unique_ptr<io::WritableFile> below_;
    std::shared_ptr<Gate> gate_;
  };

  void set_gate(bool is_open) {
    const std::lock_guard lock(gate_->mutex);
    gate_->is_open = is_open;
    gate_->changed.notify_all();
  }

  MemoryFileSystem memory_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST(UpdateLog, ACallerThatWaitsNoLongerMayChangeItsBytes) {
  GatedFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore);
    files.close_gate();
    const std::int64_t first = log.append("first");
    std::thread syncing([&] { log.wait_committed(first, soon()); });
    files.await_sync();
    const auto bytes = std::make_shared<std::string>("second");
    io::BytePieces record;
    record.append({.bytes = *bytes, .owner = bytes});
    const std::int64_t second = log.append(std::move(record));
    const auto past = std::chrono::steady_clock::now();
    EXPECT_EQ(code_of([&] { log.wait_committed(second, past); }), ErrorCode::kDeadlineExceeded);
    *bytes = "torn!!";
    files.open_gate();
    syncing.join();
    log.wait_committed(second, soon());
  }
  EXPECT_EQ(replay(files), (Records{{1, "first"}, {2, "second"}}));
}

TEST(UpdateLog, RecordsThatWaitShareOneSync) {
  FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
  UpdateLog log(files, kFolder, 0, ignore);
  const auto cost = [&](int records) {
    const std::size_t before = files.operations();
    std::int64_t last = 0;
    for (int i = 0; i < records; ++i) last = log.append("record");
    log.wait_committed(last, soon());
    return files.operations() - before;
  };
  EXPECT_EQ(cost(100), cost(1));
}

TEST(UpdateLog, ThreadsCommitTogetherAndLoseNothing) {
  MemoryFileSystem files;
  Records written;
  {
    UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 500});
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 50; ++i) {
          const std::string record = std::to_string(thread) + ":" + std::to_string(i);
          const std::int64_t number = commit(log, record);
          const std::lock_guard lock(mutex);
          written[number] = record;
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_EQ(written.size(), 200);
  EXPECT_EQ(replay(files), written);
}

TEST(UpdateLog, FilesThatASnapshotCoversAreRemoved) {
  MemoryFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 1});  // one record a file
    for (int i = 1; i <= 5; ++i) commit(log, std::to_string(i));
    ASSERT_EQ(files.list(kFolder).size(), 6);
    log.remove_up_to(3);
    EXPECT_EQ(files.list(kFolder).size(), 3);
    log.remove_up_to(100);
    EXPECT_EQ(files.list(kFolder).size(), 1) << "the file being written stays";
    commit(log, "6");
  }
  EXPECT_EQ(replay(files, 5), (Records{{6, "6"}}));
  EXPECT_EQ(code_of([&] { replay(files, 3); }), ErrorCode::kDataLoss)
      << "records 4 and 5 are gone, and this snapshot does not have them";
}

TEST(UpdateLog, AMissingOrShortenedFileInTheMiddleIsNamed) {
  MemoryFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 1});
    for (int i = 1; i <= 4; ++i) commit(log, "record");
  }
  files.remove(kFolder / "updates-00000000000000000002");
  try {
    replay(files);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDataLoss);
    EXPECT_NE(std::string(error.what()).find("lacks the records 2 to 2"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(replay(files, 2), (Records{{3, "record"}, {4, "record"}}));
}

TEST(UpdateLog, AfterAFailedSyncItTakesNothing) {
  FaultyFileSystem files(std::make_shared<MemoryFileSystem>());
  UpdateLog log(files, kFolder, 0, ignore);
  commit(log, "kept");
  files.inject({.after = 1, .code = ErrorCode::kResourceExhausted});  // the sync after the write
  const std::int64_t number = log.append("lost");
  EXPECT_EQ(code_of([&] { log.wait_committed(number, soon()); }), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code_of([&] { log.wait_committed(number, soon()); }), ErrorCode::kDataLoss);
  EXPECT_EQ(code_of([&] { log.append("more"); }), ErrorCode::kDataLoss);
  EXPECT_EQ(log.committed(), 1);
}

TEST(UpdateLog, WhatIsReplayedIsOnTheDisk) {
  const auto disk = std::make_shared<CrashingFileSystem>();
  FaultyFileSystem files(disk);
  {
    UpdateLog log(files, kFolder, 0, ignore);
    commit(log, "synced");
    files.inject({.after = 1});  // the record is written, and its sync fails
    const std::int64_t number = log.append("written");
    EXPECT_THROW(log.wait_committed(number, soon()), Error);
  }
  const Records records = replay(files);  // the process restarts, and the machine does not
  EXPECT_EQ(records, (Records{{1, "synced"}, {2, "written"}}));
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto kind = static_cast<io::Survivors>(seed % 3);
    EXPECT_EQ(replay(*disk->crash({.names = kind, .data = kind, .seed = seed})), records) << seed;
  }
}

TEST(UpdateLog, AFileWithADamagedRecordIsKeptAside) {
  MemoryFileSystem files;
  const io::Path path = kFolder / "updates-00000000000000000001";
  {
    UpdateLog log(files, kFolder, 0, ignore);
    for (const char* record : {"one", "two", "three"}) commit(log, record);
  }
  std::string bytes = files.read(path);
  bytes[bytes.find("two")] = 'T';
  const auto file = files.create(path, io::CreateMode::kTruncate);
  file->write(io::as_bytes(bytes));
  file->close();
  EXPECT_EQ(replay(files), (Records{{1, "one"}}));
  EXPECT_EQ(files.read(path.string() + ".damaged"), bytes);
}

TEST(UpdateLog, AFileThatCannotBeReadIsAnErrorNotTheEnd) {
  MemoryFileSystem files;
  {
    UpdateLog log(files, kFolder, 0, ignore);
    commit(log, "a longer record");
  }
  EXPECT_EQ(code_of([&] { UpdateLog(files, kFolder, 0, ignore, {.max_record_bytes = 3}); }),
            ErrorCode::kResourceExhausted)
      << "the limit was lowered";
  EXPECT_EQ(replay(files), (Records{{1, "a longer record"}}));
}

TEST(UpdateLog, RejectsALongRecordAndLeavesForeignFilesAlone) {
  MemoryFileSystem files;
  files.create_directories(kFolder);
  for (const char* name : {"updates-1", "updates-0000000000000000000x", "notes.txt"})
    files.create(kFolder / name, io::CreateMode::kExclusive)->close();
  UpdateLog log(files, kFolder, 0, ignore, {.max_record_bytes = 3});
  EXPECT_EQ(code_of([&] { log.append("four"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(commit(log, "123"), 1);
  log.remove_up_to(1);
  EXPECT_EQ(files.list(kFolder).size(), 4);
}

/// The power fails at each operation, and the disk keeps any part of what was not synced: records
/// that were acknowledged are all there, and none is doubled, changed or out of order.
TEST(UpdateLog, NoPowerCutLosesAnAcknowledgedRecord) {
  int cuts = 0;
  for (std::size_t after = 0;; ++after) {
    const auto disk = std::make_shared<CrashingFileSystem>();
    FaultyFileSystem files(disk);
    files.inject({.after = after, .length = io::FaultLength::kEverAfter});
    std::int64_t acknowledged = 0;
    bool has_failed = false;
    try {
      UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 20});
      for (int i = 1; i <= 12; ++i) {
        acknowledged = commit(log, "record " + std::to_string(i));
        if (i == 7) log.remove_up_to(4);
      }
    } catch (const Error&) {
      has_failed = true;
    }
    const std::int64_t snapshot = acknowledged >= 7 ? 4 : 0;
    for (unsigned seed = 0; seed < 8; ++seed) {
      const auto kind = static_cast<io::Survivors>(seed % 3);
      const auto restarted = disk->crash({.names = kind, .data = kind, .seed = seed});
      for (int restart = 0; restart < 2; ++restart) {  // the second time after a clean one
        const Records records = replay(*restarted, snapshot);
        std::int64_t expected = snapshot;
        for (const auto& [number, record] : records) {
          ASSERT_EQ(number, ++expected);
          ASSERT_EQ(record, "record " + std::to_string(number));
        }
        ASSERT_GE(expected, acknowledged) << "cut after " << after << ", seed " << seed;
      }
      ++cuts;
    }
    if (!has_failed) break;
  }
  EXPECT_GT(cuts, 200);
}

}  // namespace
}  // namespace brigade::coordination
