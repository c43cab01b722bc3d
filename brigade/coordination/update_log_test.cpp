#include "brigade/coordination/update_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "brigade/base/error.h"
#include "brigade/io/record_writer.h"
#include "brigade/io/testing/crashing_file_system.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/gated_file_system.h"
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

TEST(UpdateLog, ACallerThatWaitsNoLongerMayChangeItsBytes) {
  io::GatedFileSystem files(std::make_shared<MemoryFileSystem>());
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
    UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 1, .spare_files = 0});
    for (int i = 1; i <= 5; ++i) commit(log, std::to_string(i));  // one record a file
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
  files.remove(kFolder / "records-00000000000000000002");
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
  const io::Path path = kFolder / "records-00000000000000000001";
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
  for (const char* name : {"records-1", "records-0000000000000000000x", "notes.txt"})
    files.create(kFolder / name, io::CreateMode::kExclusive)->close();
  UpdateLog log(files, kFolder, 0, ignore, {.max_record_bytes = 3});
  EXPECT_EQ(code_of([&] { log.append("four"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(commit(log, "123"), 1);
  log.remove_up_to(1);
  EXPECT_EQ(files.list(kFolder).size(), 4);
}

TEST(UpdateLog, FilesThatASnapshotCoversAreUsedAgain) {
  MemoryFileSystem files;
  const UpdateLogOptions options{.segment_bytes = 1, .spare_files = 2};  // one record a file
  {
    UpdateLog log(files, kFolder, 0, ignore, options);
    for (int i = 1; i <= 5; ++i) commit(log, "a long record " + std::to_string(i));
    log.remove_up_to(5);
    EXPECT_EQ(files.list(kFolder).size(), 3) << "the file being written, and two spare ones";
    commit(log, "6");
    commit(log, "7");
    EXPECT_EQ(files.list(kFolder).size(), 3) << "both are used";
    EXPECT_GT(files.read(kFolder / "records-00000000000000000007").size(), 30u) << "of old bytes";
    log.remove_up_to(6);
  }
  EXPECT_EQ(replay(files, 6), (Records{{7, "7"}}));
  EXPECT_FALSE(files.exists(kFolder / "records-00000000000000000007.damaged"));
  UpdateLog(files, kFolder, 7, ignore, {.spare_files = 0});
  for (const std::string& name : files.list(kFolder)) EXPECT_FALSE(name.starts_with("spare"));
}

/// Old and new records are equally long, so an old one begins where the last new one ends.
TEST(UpdateLog, OldRecordsOfAFileThatIsUsedAgainDoNotCount) {
  MemoryFileSystem files;
  const UpdateLogOptions options{.segment_bytes = 40};
  std::int64_t number = 0;
  {
    UpdateLog log(files, kFolder, 0, ignore, options);
    while (number < 40) {
      number = commit(log, "record " + std::to_string(number + 11));
      if (number % 10 == 0) log.remove_up_to(number);
    }
    number = commit(log, "record 99");
  }
  const Records records = replay(files, 40);
  EXPECT_EQ(records, (Records{{41, "record 99"}}));
}

TEST(UpdateLog, DamageInAFileThatIsUsedAgainIsKnownByWhatFollows) {
  MemoryFileSystem files;
  const io::Path path = kFolder / "records-00000000000000000003";
  {
    UpdateLog log(files, kFolder, 0, ignore, {.segment_bytes = 20});
    commit(log, "a record of more than 20 bytes");
    commit(log, "another one of more than 20");
    log.remove_up_to(2);
    for (const char* record : {"3", "4", "5"}) commit(log, record);
  }
  ASSERT_TRUE(files.exists(path));
  std::string bytes = files.read(path);
  bytes[bytes.find('4', 20)] = 'x';
  const auto file = files.create(path, io::CreateMode::kTruncate);
  file->write(io::as_bytes(bytes));
  file->close();
  EXPECT_EQ(replay(files, 2), (Records{{3, "3"}}));
  EXPECT_EQ(files.read(path.string() + ".damaged"), bytes);
}

TEST(UpdateLog, ContinuesALogOfAnEarlierVersion) {
  MemoryFileSystem files;
  files.create_directories(kFolder);
  const auto write = [&](const char* name, std::vector<std::string> records) {
    io::RecordWriter writer(files.create(kFolder / name, io::CreateMode::kExclusive));
    for (const std::string& record : records) writer.write(io::as_bytes(record));
    writer.close();
  };
  write("updates-00000000000000000001", {"one", "two"});
  write("updates-00000000000000000003", {"three"});
  write("updates-00000000000000000004", {});
  {
    Records records;
    UpdateLog log(files, kFolder, 0, [&](auto number, auto record) { records[number] = record; });
    EXPECT_EQ(records, (Records{{1, "one"}, {2, "two"}, {3, "three"}}));
    EXPECT_EQ(commit(log, "four"), 4);
    log.remove_up_to(2);
  }
  EXPECT_EQ(replay(files, 2), (Records{{3, "three"}, {4, "four"}}));
}

TEST(UpdateLog, FilesOfEarlierVersionsAreNotUsedAgain) {
  MemoryFileSystem files;
  files.create_directories(kFolder);
  {
    io::RecordWriter writer(
        files.create(kFolder / "updates-00000000000000000001", io::CreateMode::kExclusive));
    writer.write(io::as_bytes("twelve bytes"));  // as many as a number and "four"
    writer.write(io::as_bytes(std::string("\5\0\0\0\0\0\0\0old", 11)));  // looks like record 5
    writer.close();
  }
  {
    UpdateLog log(files, kFolder, 0, ignore);
    EXPECT_EQ(commit(log, "three"), 3);
    log.remove_up_to(2);
  }
  {
    UpdateLog log(files, kFolder, 2, ignore);
    EXPECT_EQ(commit(log, "four"), 4);
  }
  EXPECT_EQ(replay(files, 2), (Records{{3, "three"}, {4, "four"}}));
}

std::string text_of_record(std::int64_t number) {
  return "record " + std::to_string(number + 100);
}

/// One life of a server, which ends at record `until` or when its disk fails: snapshots come often,
/// so that files are used again. Returns the last record that was acknowledged.
std::int64_t live(io::FileSystem& files, std::int64_t snapshot, std::int64_t until,
                  std::int64_t& covered, bool& has_failed) {
  std::int64_t acknowledged = 0;
  try {
    UpdateLog log(files, kFolder, snapshot, ignore, {.segment_bytes = 20, .spare_files = 2});
    for (std::int64_t i = log.appended() + 1; i <= until; ++i) {
      acknowledged = commit(log, text_of_record(i));
      if (i % 5 != 2) continue;
      covered = i - 2;
      log.remove_up_to(covered);
    }
  } catch (const Error&) {
    has_failed = true;
  }
  return acknowledged;
}

void expect_records(const Records& records, std::int64_t after, std::int64_t acknowledged) {
  std::int64_t expected = after;
  for (const auto& [number, record] : records) {
    ASSERT_EQ(number, ++expected);
    ASSERT_EQ(record, text_of_record(number));
  }
  ASSERT_GE(expected, acknowledged);
}

/// The power fails at each operation, and the disk keeps any part of what was not synced: records
/// that were acknowledged are all there, and none is doubled, changed or out of order. So they are
/// in the next life, which ends in the same way.
TEST(UpdateLog, NoPowerCutLosesAnAcknowledgedRecord) {
  int cuts = 0;
  for (std::size_t after = 0;; ++after) {
    const auto disk = std::make_shared<CrashingFileSystem>();
    FaultyFileSystem files(disk);
    files.inject({.after = after, .length = io::FaultLength::kEverAfter});
    bool has_failed = false;
    std::int64_t covered = 0;
    const std::int64_t acknowledged = live(files, 0, 20, covered, has_failed);
    for (unsigned seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE("cut after " + std::to_string(after) + ", seed " + std::to_string(seed));
      const auto kind = static_cast<io::Survivors>(seed % 3);
      const io::Crash crash{.names = kind, .data = kind, .seed = seed};
      const auto restarted = disk->crash(crash);
      expect_records(replay(*restarted, covered), covered, acknowledged);
      if (HasFatalFailure()) return;
      // The same crash, then another one in the next life.
      const auto second = disk->crash(crash);
      FaultyFileSystem faulty(second);
      faulty.inject({.after = 3 + (7 * after + seed) % 40, .length = io::FaultLength::kEverAfter});
      bool ignored = false;
      std::int64_t covered_then = covered;
      const std::int64_t then =
          std::max(acknowledged, live(faulty, covered, 35, covered_then, ignored));
      const auto again = second->crash({.names = kind, .data = kind, .seed = seed + 1});
      for (int restart = 0; restart < 2; ++restart) {  // the second time after a clean one
        expect_records(replay(*again, covered_then), covered_then, then);
        if (HasFatalFailure()) return;
      }
      ++cuts;
    }
    if (!has_failed) break;
  }
  EXPECT_GT(cuts, 400);
}

}  // namespace
}  // namespace brigade::coordination
