#include "brigade/checkpoint/saver.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "brigade/base/strings.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/restore.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/testing/faulty_file_system.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/variables/get_variable.h"
#include "brigade/variables/variable_store.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;

const io::Path kDirectory = "/run";

class SaverTest : public ::testing::Test {
 protected:
  Saver saver(SaverOptions options = {}) {
    options.directory = kDirectory;
    return {files_, std::move(options), clock_};
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> result;
    for (const io::Path& each : checkpoint_paths(*files_, kDirectory)) {
      result.push_back(Checkpoint::open(files_, each).step());
    }
    return result;
  }
  Checkpoint newest() const {
    return Checkpoint::open(files_, *latest_checkpoint(*files_, kDirectory));
  }
  static void expect_is_sample(const Checkpoint& checkpoint, std::int64_t step) {
    const Contents expected = sample(step);
    EXPECT_EQ(checkpoint.step(), step);
    EXPECT_EQ(checkpoint.state(), expected.state);
    EXPECT_EQ(checkpoint.metrics(), expected.metrics);
    EXPECT_EQ(checkpoint.metadata(), expected.metadata);
    EXPECT_EQ(checkpoint.names(Section::kTensors).size(), expected.tensors.size());
    for (const NamedTensor& each : expected.tensors) {
      EXPECT_TRUE(at::equal(checkpoint.tensor(each.name, Section::kTensors), each.tensor));
    }
  }
  using Steps = std::vector<std::int64_t>;

  std::shared_ptr<io::MemoryFileSystem> memory_ = std::make_shared<io::MemoryFileSystem>();
  std::shared_ptr<io::FaultyFileSystem> files_ = std::make_shared<io::FaultyFileSystem>(memory_);
  std::shared_ptr<base::ManualClock> clock_ = std::make_shared<base::ManualClock>();
};

TEST_F(SaverTest, SavesEverythingTogether) {
  for (const Writing writing : {Writing::kBackground, Writing::kForeground}) {
    for (const std::size_t shards : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      Saver under_test = saver({.writing = writing, .shards = shards});
      under_test.save(5, sample(5));
      under_test.close();
      expect_is_sample(newest(), 5);
      newest().verify();
    }
  }
}

TEST_F(SaverTest, SpreadsTensorsOverShardsBySize) {
  Saver under_test = saver({.shards = 2});
  Contents contents;
  for (int i = 0; i < 8; ++i) {
    contents.tensors.push_back(
        {base::str_cat("t", i), at::full({i == 0 ? 700 : 100}, i, at::kByte)});
  }
  under_test.save(1, contents);
  under_test.close();
  const Checkpoint found = newest();
  const auto& files = found.manifest().files;
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "tensors-00001-of-00002.safetensors");
  EXPECT_EQ(found.manifest().section(Section::kTensors).at("t0").file, 0u);
  for (int i = 1; i < 8; ++i) {
    EXPECT_EQ(found.manifest().section(Section::kTensors).at(base::str_cat("t", i)).file, 1u);
  }
}

TEST_F(SaverTest, CopiesAtTheCall) {
  Saver under_test = saver();
  Contents contents = sample(3);
  const at::Tensor tensor = contents.tensors[0].tensor;
  under_test.save(3, contents);
  tensor.fill_(99);
  under_test.close();
  expect_is_sample(newest(), 3);
}

TEST_F(SaverTest, SavesTheValuesOutsideOfReplicas) {
  variables::VariableStore store(std::vector<c10::Device>(2, c10::Device(c10::kCPU)),
                                 variables::StorageSharing::kOneCopyEach);
  const auto variable = store.create({.name = "seen",
                                      .initial = at::full({2}, 0.0),
                                      .trainable = false,
                                      .synchronization = variables::Synchronization::kOnRead,
                                      .aggregation = variables::Aggregation::kSum});
  variable.component(0).fill_(4);
  variable.component(1).fill_(7);
  Saver under_test = saver();
  under_test.save(1, {.variables = {variable}});
  under_test.close();
  EXPECT_TRUE(at::equal(newest().tensor("seen"), at::full({2}, 11.0)));
}

TEST_F(SaverTest, KeepsTheLastFiveByDefault) {
  Saver under_test = saver();
  for (std::int64_t step = 1; step <= 8; ++step) under_test.save(step, sample(step));
  under_test.close();
  EXPECT_EQ(steps(), (Steps{4, 5, 6, 7, 8}));
  EXPECT_EQ(files_->list(kDirectory).size(), 6u);  // and `latest`
  EXPECT_EQ(files_->read(kDirectory / "latest"), "ckpt-8\n");
}

TEST_F(SaverTest, KeepsWhatTheRulesKeepOverRestarts) {
  const SaverOptions options{.keep_last = 1,
                             .keep_every = {.steps = 4, .time = std::nullopt},
                             .best_of = BestOf{.metric = "accuracy"}};
  for (std::int64_t step = 1; step <= 9; ++step) {
    Saver under_test = saver(options);
    under_test.save(step, sample(step));  // the accuracy drops
    under_test.close();
  }
  EXPECT_EQ(steps(), (Steps{1, 4, 8, 9}));
}

TEST_F(SaverTest, KeepsByTimeOverRestarts) {
  const SaverOptions options{.keep_last = 1,
                             .keep_every = {.steps = std::nullopt, .time = std::chrono::hours(1)}};
  for (std::int64_t step = 1; step <= 9; ++step) {
    Saver under_test = saver(options);
    under_test.save(step, sample(step));
    under_test.close();
    clock_->advance(std::chrono::minutes(20));
  }
  EXPECT_EQ(steps(), (Steps{4, 7, 9}));
}

TEST_F(SaverTest, AStepSavedAgainReplacesTheOlder) {
  Saver under_test = saver();
  under_test.save(5, sample(5));
  under_test.save(6, sample(6));
  Contents again = sample(5);
  again.metadata["attempt"] = "2";
  under_test.save(5, again);
  under_test.close();
  EXPECT_EQ(steps(), (Steps{6, 5}));
  EXPECT_EQ(newest().metadata().at("attempt"), "2");
  EXPECT_EQ(newest().path().filename(), "ckpt-5-2");
  Saver third = saver();
  third.save(5, sample(5));
  third.close();
  EXPECT_EQ(newest().path().filename(), "ckpt-5");
}

TEST_F(SaverTest, NewestIsWhatWasSavedLast) {
  {
    Saver under_test = saver();
    under_test.save(300, sample(300));
    under_test.close();
  }
  Saver again = saver();  // continues from an earlier checkpoint
  again.save(200, sample(200));
  again.close();
  expect_is_sample(newest(), 200);
}

TEST_F(SaverTest, KeepsABrokenCheckpointOfTheSameStep) {
  files_->create_directories(kDirectory / "ckpt-5");
  testing::write_file(*files_, kDirectory / "ckpt-5" / "manifest.json", "{}");
  Saver under_test = saver();
  under_test.save(5, sample(5));
  under_test.close();
  EXPECT_EQ(files_->read(kDirectory / "ckpt-5" / "manifest.json"), "{}");
  expect_is_sample(newest(), 5);
}

// Otherwise its number would be reused, and a save of its step would remove it.
TEST_F(SaverTest, RefusesADirectoryWithACheckpointOfANewerFormat) {
  {
    Saver first = saver();
    first.save(5, sample(5));
    first.close();
  }
  testing::make_newer(*files_, kDirectory / "ckpt-5");
  const std::string before = files_->read(kDirectory / "ckpt-5" / kManifestName);
  const auto error = caught([&] {
    Saver under_test = saver();
    under_test.save(5, sample(5));
    under_test.close();
  });
  EXPECT_EQ(error.code, ErrorCode::kUnimplemented) << error.message;
  EXPECT_NE(error.message.find("ckpt-5"), std::string::npos) << error.message;
  EXPECT_EQ(files_->read(kDirectory / "ckpt-5" / kManifestName), before);
  EXPECT_EQ(files_->list(kDirectory), (std::vector<std::string>{"ckpt-5", "latest"}));
}

TEST_F(SaverTest, RemovesLeftoversOfACrash) {
  files_->create_directories(kDirectory / ".ckpt-7.saving");
  testing::write_file(*files_, kDirectory / ".ckpt-7.saving" / "manifest.json", "x");
  testing::write_file(*files_, kDirectory / ".latest.12.0.tmp", "x");
  testing::write_file(*files_, kDirectory / "notes.txt", "mine");
  saver().close();
  EXPECT_EQ(files_->list(kDirectory), (std::vector<std::string>{"notes.txt"}));
}

TEST_F(SaverTest, AnErrorSurfacesAtTheNextSaveAndSavingContinues) {
  Saver under_test = saver();
  under_test.save(1, sample(1));
  under_test.wait();
  files_->inject({.after = 3, .code = ErrorCode::kResourceExhausted});
  under_test.save(2, sample(2));
  EXPECT_EQ(caught([&] { under_test.save(3, sample(3)); }).code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(steps(), (Steps{1}));
  under_test.save(3, sample(3));
  under_test.close();
  EXPECT_EQ(steps(), (Steps{1, 3}));
}

TEST_F(SaverTest, AnErrorSurfacesAtClose) {
  Saver under_test = saver();
  files_->inject({.after = 2, .code = ErrorCode::kDataLoss});
  under_test.save(2, sample(2));
  EXPECT_EQ(caught([&] { under_test.close(); }).code, ErrorCode::kDataLoss);
  under_test.close();
  EXPECT_EQ(caught([&] { under_test.save(3, sample(3)); }).code, ErrorCode::kFailedPrecondition);
}

TEST_F(SaverTest, RefusesContentsAtTheCall) {
  Saver under_test = saver();
  const auto code = [&](const std::function<void(Contents&)>& change, std::int64_t step = 1) {
    Contents contents = sample(1);
    change(contents);
    return caught([&] { under_test.save(step, contents); }).code;
  };
  EXPECT_EQ(code([](Contents& c) { c.tensors.push_back(c.tensors[0]); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](Contents& c) { c.tensors[0].tensor = at::Tensor(); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](Contents& c) { c.tensors[0].tensor = at::full({1}, 1, at::kComplexFloat); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](Contents& c) { c.tensors[0].name = ""; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](Contents& c) { c.state["x"] = "\xff"; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](Contents&) {}, -1), ErrorCode::kInvalidArgument);
  under_test.close();
  EXPECT_EQ(steps(), Steps{});
}

TEST_F(SaverTest, SavesEmptyContents) {
  Saver under_test = saver();
  under_test.save(0, {});
  under_test.close();
  EXPECT_EQ(newest().step(), 0);
  EXPECT_TRUE(newest().manifest().files.empty());
  EXPECT_TRUE(newest().state().is_null());
}

TEST_F(SaverTest, RecordsTheTime) {
  clock_->advance(std::chrono::milliseconds(1234));
  Saver under_test = saver();
  under_test.save(1, {});
  under_test.close();
  EXPECT_EQ(newest().manifest().time.count(), 1234);
}

/// Saves variables in this order in memory to `directory`; returns its files' bytes, by name.
std::map<std::string, std::string> saved_kernels(const std::shared_ptr<io::FileSystem>& files,
                                                 const io::Path& directory, Writing writing,
                                                 at::MemoryFormat format) {
  variables::Graph graph;
  const auto opened = graph.as_default();
  variables::get_variable("kernel", {{4, 3, 5, 2}}, {.memory_format = format});
  variables::get_variable("frozen", {{3, 3, 3, 3}}, {.trainable = false, .memory_format = format});
  variables::get_partitioned_variable(
      "parts", {{4, 3, 5, 2}},
      {.partitioner = variables::fixed_size_partitioner(2), .memory_format = format});
  const std::vector<variables::Variable> all = graph.store().variables();
  EXPECT_EQ(all.front().memory_format(), format);
  Saver saver(files, {.directory = directory, .writing = writing},
              std::make_shared<base::ManualClock>());
  saver.save(1, {.variables = all, .tensors = {{"slot", all.front().read() * 2}}});
  saver.close();
  const Checkpoint saved = Checkpoint::open(files, *latest_checkpoint(*files, directory));
  EXPECT_TRUE(at::equal(saved.tensor("kernel"), all.front().read()));
  // A variable in either order can be restored from it.
  all.front().assign(at::full({4, 3, 5, 2}, 0.0F));
  restore_variables(saved, all);
  EXPECT_TRUE(at::equal(saved.tensor("kernel"), all.front().read()));
  EXPECT_TRUE(all.front().component(0).is_contiguous(format));
  std::map<std::string, std::string> bytes;
  for (const auto& file : saved.manifest().files)
    bytes[file.name] = files->read(saved.path() / file.name);
  return bytes;
}

TEST(Saver, FilesDoNotDependOnTheOrderInMemory) {
  for (const Writing writing : {Writing::kBackground, Writing::kForeground}) {
    const auto files = std::make_shared<io::MemoryFileSystem>();
    const auto plain = saved_kernels(files, "/plain", writing, at::MemoryFormat::Contiguous);
    EXPECT_FALSE(plain.empty());
    EXPECT_EQ(saved_kernels(files, "/last", writing, at::MemoryFormat::ChannelsLast), plain);
  }
}

}  // namespace
}  // namespace brigade::checkpoint
