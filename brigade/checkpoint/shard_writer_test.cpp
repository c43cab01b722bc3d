// Checkpoints that several processes write. Here each process is a thread with its own file system.
#include "brigade/checkpoint/shard_writer.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "brigade/base/log.h"
#include "brigade/base/strings.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/shard_exchange.h"
#include "brigade/checkpoint/testing/creation_log.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/checkpoint/testing/writing_job.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::CreationLog;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample;
using ::testing::StartsWith;
using testing::WritingJob;

const io::Path kWorkersRun = "/run";

/// Captures the log during its lifetime.
class Log {
 public:
  Log() {
    base::set_log_sink([this](base::LogLevel, std::string_view line) {
      const std::lock_guard lock(mutex_);
      text_ += base::str_cat(line, "\n");
    });
  }
  ~Log() { base::set_log_sink({}); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

class ShardWriterTest : public ::testing::Test {
 protected:
  std::vector<std::shared_ptr<io::FileSystem>> views(int count) {
    std::vector<std::shared_ptr<io::FileSystem>> files;
    for (int i = 0; i < count; ++i) {
      logged_.push_back(std::make_shared<CreationLog>(disk_));
      files.push_back(logged_.back());
    }
    return files;
  }
  Checkpoint newest() const {
    return Checkpoint::open(disk_, *latest_checkpoint(*disk_, kWorkersRun));
  }
  void expect_holds(const Contents& expected) const {
    const Checkpoint found = newest();
    found.verify();
    EXPECT_EQ(found.state(), expected.state);
    EXPECT_EQ(found.metrics(), expected.metrics);
    EXPECT_EQ(found.names(Section::kTensors).size(), expected.tensors.size());
    for (const NamedTensor& each : expected.tensors)
      EXPECT_TRUE(at::equal(found.tensor(each.name, Section::kTensors), each.tensor)) << each.name;
  }
  /// Nothing but checkpoints and `latest`, and in the newest nothing that its manifest does not
  /// name.
  void expect_is_tidy() const {
    for (const std::string& name : disk_->list(kWorkersRun)) EXPECT_NE(name.front(), '.') << name;
    EXPECT_EQ(disk_->list(newest().path()).size(), newest().manifest().files.size() + 1);
  }
  std::vector<std::string> written_by(int rank) const {
    return logged_[static_cast<std::size_t>(rank)]->tensor_files();
  }

  std::shared_ptr<io::MemoryFileSystem> disk_ = std::make_shared<io::MemoryFileSystem>();
  std::vector<std::shared_ptr<CreationLog>> logged_;
  Log log_;
};

TEST_F(ShardWriterTest, EachProcessWritesItsOwnShards) {
  WritingJob job(views(3));
  job.save(5, sample(5));
  job.wait();
  expect_holds(sample(5));
  expect_is_tidy();
  EXPECT_THAT(written_by(0), ElementsAre("tensors-00001-of-00003.safetensors",
                                         "state-00001-of-00001.safetensors"));
  EXPECT_THAT(written_by(1), ElementsAre("tensors-00002-of-00003.safetensors"));
  EXPECT_THAT(written_by(2), ElementsAre("tensors-00003-of-00003.safetensors"));
  EXPECT_THAT(log_.text(), IsEmpty());
}

TEST_F(ShardWriterTest, TheFilesEqualThoseOfASingleWriter) {
  WritingJob job(views(3));
  job.save(5, sample(5));
  job.wait();
  const auto alone = std::make_shared<io::MemoryFileSystem>();
  Saver saver(alone, {.directory = kWorkersRun, .shards = 3});
  saver.save(5, sample(5));
  saver.close();
  const Checkpoint found = newest();
  const io::Path folder = found.path();
  for (const ManifestFile& each : found.manifest().files)
    EXPECT_EQ(disk_->read(folder / each.name), alone->read(folder / each.name)) << each.name;
}

TEST_F(ShardWriterTest, ManySavesKeepTheLastOnesAndOneTextEach) {
  WritingJob job(views(2), {.directory = kWorkersRun, .keep_last = 2, .shards = 4});
  for (std::int64_t step = 1; step <= 20; ++step) job.save(step, sample(step));
  job.wait();
  expect_holds(sample(20));
  expect_is_tidy();
  EXPECT_EQ(checkpoint_paths(*disk_, kWorkersRun).size(), 2u);
  EXPECT_EQ(written_by(1).size(), 20u);  // the second of three tensors in four files
}

TEST_F(ShardWriterTest, TensorsAreCopiedBeforeTrainingContinues) {
  WritingJob job(views(2));
  Contents contents = sample(5);
  const Contents before = sample(5);
  // The other waits for the chief while its training changes what it had saved.
  job.others[0]->save(5, contents);
  for (NamedTensor& each : contents.tensors) each.tensor.fill_(-1);
  job.saver->save(5, before);
  job.wait();
  expect_holds(before);
  EXPECT_THAT(log_.text(), IsEmpty());
}

// A late writer of a finished save or job must not find the folder of a newer one.
TEST_F(ShardWriterTest, ASharedFolderHasAUniqueName) {
  WritingJob job(views(2));
  testing::InMemoryShardExchange spy(job.status, 1);
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) {
    job.save(5, sample(5));
    job.wait();
    names.insert(Announcement::parse(spy.wait_for(0, [](const auto&) { return true; })).folder);
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_THAT(names, Each(StartsWith(".ckpt-5.")));
}

TEST_F(ShardWriterTest, AWriterThatDoesNotSeeTheFolderIsLeftOut) {
  auto files = views(3);
  files[1] = std::make_shared<io::MemoryFileSystem>();  // another machine's disk
  WritingJob job(files);
  for (const std::int64_t step : {5, 6, 7}) {
    job.save(step, sample(step));
    job.wait();
    expect_holds(sample(step));
  }
  expect_is_tidy();
  EXPECT_FALSE(files[1]->exists(kWorkersRun));
  EXPECT_EQ(written_by(2).size(), 3u);
  EXPECT_EQ(written_by(0).size(), 9u);
  EXPECT_THAT(log_.text(), HasSubstr("/job:worker/task:1 writes no part of checkpoints; from "
                                     "now on the chief writes that part: it does not see "
                                     "the folder /run/.ckpt-5."));
  EXPECT_EQ(log_.text().find("task:1"), log_.text().rfind("task:1")) << "once: " << log_.text();
  EXPECT_EQ(log_.text().find("This worker's"), log_.text().rfind("This worker's"));
}

TEST_F(ShardWriterTest, AWriterWithOtherTensorsIsLeftOut) {
  WritingJob job(views(2));
  for (const std::int64_t step : {5, 6}) {
    Contents more = sample(step);
    more.tensors.push_back({"more", at::full({9}, 1.0, at::kDouble)});
    job.others[0]->save(step, sample(step));
    job.saver->save(step, more);
    job.wait();
    expect_holds(more);
  }
  expect_is_tidy();
  EXPECT_THAT(written_by(1), IsEmpty());
  EXPECT_THAT(log_.text(), HasSubstr("it holds other tensors than the chief"));
}

// The chief compares with its own checksum of the file.
TEST_F(ShardWriterTest, AWriterWithOtherValuesIsLeftOutAndItsFilesRewritten) {
  WritingJob job(views(2));
  Contents other = sample(5);
  other.tensors[0].tensor = other.tensors[0].tensor + 1;
  other.tensors[1].tensor = other.tensors[1].tensor + 1;
  job.others[0]->save(5, other);
  job.saver->save(5, sample(5));
  job.wait();
  expect_holds(sample(5));
  expect_is_tidy();
  EXPECT_EQ(written_by(1).size(), 1u);
  EXPECT_THAT(log_.text(), HasSubstr("differs from what the chief has"));
  job.save(6, sample(6));
  job.wait();
  expect_holds(sample(6));
  EXPECT_EQ(written_by(1).size(), 1u) << "it knows that it is left out";
}

// Arrays of the state may differ: each process has its own data positions.
TEST_F(ShardWriterTest, TheStateIsTakenFromTheChief) {
  WritingJob job(views(2));
  Contents other = sample(5);
  other.state = sample(6).state;
  job.others[0]->save(5, other);
  job.saver->save(5, sample(5));
  job.wait();
  expect_holds(sample(5));
  EXPECT_THAT(log_.text(), IsEmpty());
}

TEST_F(ShardWriterTest, TheChiefWritesFilesThatItDoesNotFind) {
  auto files = views(2);
  files[1] = std::make_shared<io::MemoryFileSystem>();
  WritingJob job(files);
  // A folder of the same name on another disk: the other process sees it, but the chief sees none
  // of its files.
  testing::InMemoryShardExchange spy(job.status, 1);
  job.saver->save(5, sample(5));
  const auto announced =
      Announcement::parse(spy.wait_for(0, [](const std::string& text) { return !text.empty(); }));
  files[1]->create_directories(kWorkersRun / announced.folder);
  job.others[0]->save(5, sample(5));
  job.wait();
  expect_holds(sample(5));
  expect_is_tidy();
  EXPECT_THAT(log_.text(), HasSubstr("is not visible to the chief"));
}

TEST_F(ShardWriterTest, AFullDiskOfAWriterFailsTheSaveNamingIt) {
  auto files = views(3);
  const auto full = std::make_shared<io::FaultyFileSystem>(files[2]);
  files[2] = full;
  WritingJob job(files);
  job.save(5, sample(5));
  job.wait();
  // Each of its operations: create, write, sync, close.
  for (std::size_t operation = 0; operation < 4; ++operation) {
    full->inject({.after = operation, .code = ErrorCode::kResourceExhausted});
    job.save(6, sample(6));
    const auto error = caught([&] { job.wait(); });
    EXPECT_EQ(error.code, ErrorCode::kResourceExhausted) << operation;
    EXPECT_THAT(error.message, HasSubstr("/job:worker/task:2 could not write its part"));
    for (const auto& other : job.others) other->wait();
    expect_holds(sample(5));
    expect_is_tidy();
    full->heal();
  }
  job.save(7, sample(7));
  job.wait();
  expect_holds(sample(7));
  EXPECT_EQ(written_by(2).size(), 5u);  // in step 6 once not even created
}

TEST_F(ShardWriterTest, AFullDiskOfTheChiefDoesNotBlockTheOthers) {
  auto files = views(2);
  const auto full = std::make_shared<io::FaultyFileSystem>(files[0]);
  files[0] = full;
  WritingJob job(files);
  job.save(5, sample(5));
  job.wait();
  bool has_failed = true;
  for (std::size_t operation = 0; has_failed; ++operation) {
    full->inject({.after = operation, .code = ErrorCode::kResourceExhausted});
    job.save(6, sample(6));
    has_failed = caught([&] { job.wait(); }).code == ErrorCode::kResourceExhausted;
    for (const auto& other : job.others) other->wait();
    full->heal();
    ASSERT_LT(operation, 100u);
  }
  job.save(7, sample(7));
  job.wait();
  expect_holds(sample(7));
  for (const std::string& name : disk_->list(kWorkersRun))
    EXPECT_EQ(name.find(".saving"), std::string::npos) << name;
}

TEST_F(ShardWriterTest, ALostWriterIsNamedAndTheSaveFails) {
  WritingJob job(views(2));
  job.save(5, sample(5));
  job.wait();
  job.saver->save(6, sample(6));
  job.status->lose(1);
  const auto error = caught([&] { job.saver->wait(); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("/job:worker/task:1"));
  expect_holds(sample(5));
  expect_is_tidy();
}

TEST_F(ShardWriterTest, AWriterThatHasEndedIsNotWaitedFor) {
  WritingJob job(views(2));
  job.save(5, sample(5));
  job.wait();
  job.others[0]->close();
  job.saver->save(6, sample(6));
  const auto error = caught([&] { job.saver->wait(); });
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("task:1 ended"));
  expect_holds(sample(5));
}

TEST_F(ShardWriterTest, NoWriterWaitsAfterTheChiefEnded) {
  WritingJob job(views(2));
  job.save(5, sample(5));
  job.saver->close();
  job.others[0]->save(6, sample(6));
  job.others[0]->close();
  expect_holds(sample(5));
  EXPECT_THAT(log_.text(), IsEmpty()) << "it was waited for until the deadline";
}

TEST_F(ShardWriterTest, ASlowWriterIsNamed) {
  WritingJob job(views(2));
  job.status->give_up_after(std::chrono::milliseconds(5));
  job.saver->save(6, sample(6));
  const auto error = caught([&] { job.saver->wait(); });
  EXPECT_EQ(error.code, ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(error.message, HasSubstr("task:1"));
  // The folder is gone when it arrives, and it takes part in the next save.
  job.status->give_up_after(std::chrono::seconds(60));
  job.others[0]->save(6, sample(6));
  job.others[0]->wait();
  job.save(7, sample(7));
  job.wait();
  expect_holds(sample(7));
}

TEST_F(ShardWriterTest, RefusesInvalidArguments) {
  const auto status = std::make_shared<testing::InMemoryShardStatus>(2);
  const auto exchange = [&](int rank) {
    return std::make_shared<testing::InMemoryShardExchange>(status, rank);
  };
  const SaverOptions options{.directory = kWorkersRun};
  EXPECT_EQ(caught([&] { ShardWriter(disk_, options, exchange(0)); }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(caught([&] { ShardWriter(disk_, options, nullptr); }).code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(caught([&] { Saver(disk_, options, nullptr, exchange(1)); }).code,
            ErrorCode::kInvalidArgument);
  ShardWriter writer(disk_, options, exchange(1));
  writer.close();
  EXPECT_EQ(caught([&] { writer.save(1, sample(1)); }).code, ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace brigade::checkpoint
