#include "brigade/checkpoint/checkpoint.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>

#include "brigade/base/environment.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"
#include "brigade/io/crc32c.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/variables/variable_store.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;

const io::Path kDirectory = "/run";

class CheckpointTest : public ::testing::Test {
 protected:
  void save(std::initializer_list<std::int64_t> steps) {
    Saver saver(files_, {.directory = kDirectory, .writing = Writing::kForeground});
    for (const std::int64_t step : steps) saver.save(step, sample(step));
  }
  io::Path path(std::int64_t step) const { return kDirectory / ("ckpt-" + std::to_string(step)); }
  void change(const io::Path& path, const std::function<void(std::string&)>& how) {
    std::string bytes = files_->read(path);
    how(bytes);
    testing::write_file(*files_, path, bytes);
  }
  ErrorCode open_code(const io::Path& folder) {
    return caught([&] { Checkpoint::open(files_, folder); }).code;
  }
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

constexpr std::string_view kTensorFile = "tensors-00001-of-00001.safetensors";

TEST_F(CheckpointTest, FindsNothingInAnEmptyDirectory) {
  EXPECT_EQ(latest_checkpoint(*files_, "/absent"), std::nullopt);
  EXPECT_FALSE(find_latest_complete(files_, "/absent").checkpoint.has_value());
  EXPECT_EQ(open_code("/absent"), ErrorCode::kNotFound);
}

TEST_F(CheckpointTest, ListsOldestFirst) {
  save({9, 10, 100});
  EXPECT_EQ(checkpoint_paths(*files_, kDirectory),
            (std::vector<io::Path>{path(9), path(10), path(100)}));
  EXPECT_EQ(latest_checkpoint(*files_, kDirectory), path(100));
}

// Numbers are equal if two runs were copied into one folder.
TEST_F(CheckpointTest, EqualNumbersAreOrderedByStepAndAttemptNotByText) {
  const std::vector<std::string> names = {"ckpt-9", "ckpt-9-2", "ckpt-9-10", "ckpt-10"};
  save({9});
  const std::string manifest = files_->read(path(9) / kManifestName);
  for (const std::string& name : names) {
    if (files_->exists(kDirectory / name)) continue;
    files_->create_directories(kDirectory / name);
    for (const std::string& file : files_->list(path(9)))
      testing::write_file(*files_, kDirectory / name / file, files_->read(path(9) / file));
  }
  std::vector<std::string> found;
  for (const io::Path& each : checkpoint_paths(*files_, kDirectory))
    found.push_back(each.filename().string());
  EXPECT_EQ(found, names);
  for (const std::string& name : names) files_->remove(kDirectory / name / kManifestName);
  found.clear();
  for (const BrokenCheckpoint& each : find_latest_complete(files_, kDirectory).broken)
    found.push_back(each.path.filename().string());
  EXPECT_EQ(found, names);
}

TEST_F(CheckpointTest, ANewerFormatIsRefusedByName) {
  save({1, 2, 3});
  testing::make_newer(*files_, path(2));
  const auto expect_refused = [&](const std::function<void()>& call) {
    const auto error = caught(call);
    EXPECT_EQ(error.code, ErrorCode::kUnimplemented) << error.message;
    EXPECT_NE(error.message.find("ckpt-2"), std::string::npos) << error.message;
    EXPECT_NE(error.message.find("version 2"), std::string::npos) << error.message;
  };
  expect_refused([&] { find_latest_complete(files_, kDirectory); });
  expect_refused([&] { latest_checkpoint(*files_, kDirectory); });
  expect_refused([&] { checkpoint_paths(*files_, kDirectory); });
  expect_refused([&] { Checkpoint::open(files_, path(2)); });
  EXPECT_EQ(Checkpoint::open(files_, path(3)).step(), 3);  // asked for by name
}

TEST_F(CheckpointTest, ReadsOneTensorAndSuggestsTheNearestName) {
  save({4});
  const Checkpoint checkpoint = Checkpoint::open(files_, path(4));
  EXPECT_TRUE(at::equal(checkpoint.tensor("conv1/weights/adam/m", Section::kTensors),
                        at::full({2, 3}, 4.0, at::kFloat)));
  const auto error = caught([&] { checkpoint.tensor("conv1/weights/adam/n", Section::kTensors); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_NE(error.message.find("did you mean 'conv1/weights/adam/"), std::string::npos)
      << error.message;
  EXPECT_FALSE(checkpoint.has("step"));
  EXPECT_TRUE(checkpoint.has("step", Section::kTensors));
}

TEST_F(CheckpointTest, ABrokenNewestIsReportedAndThePreviousOneUsed) {
  save({1, 2, 3});
  change(path(3) / kTensorFile, [](std::string& bytes) { bytes.back() ^= 1; });
  change(path(2) / kTensorFile, [](std::string& bytes) { bytes.pop_back(); });
  const LatestComplete found = find_latest_complete(files_, kDirectory);
  ASSERT_TRUE(found.checkpoint.has_value());
  EXPECT_EQ(found.checkpoint->step(), 1);
  ASSERT_EQ(found.broken.size(), 2u);
  EXPECT_EQ(found.broken[0].path, path(2));
  EXPECT_NE(found.broken[0].reason.find("bytes"), std::string::npos);
  EXPECT_EQ(found.broken[1].path, path(3));
  EXPECT_NE(found.broken[1].reason.find("CRC-32C"), std::string::npos);
}

TEST_F(CheckpointTest, EveryBrokenByteIsFound) {
  save({1});
  for (const std::string& name : files_->list(path(1))) {
    const std::string whole = files_->read(path(1) / name);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      change(path(1) / name, [&](std::string& bytes) { bytes[at] ^= 4; });
      ASSERT_FALSE(find_latest_complete(files_, kDirectory).checkpoint) << name << " " << at;
      testing::write_file(*files_, path(1) / name, whole);
    }
    files_->remove(path(1) / name);
    ASSERT_FALSE(find_latest_complete(files_, kDirectory).checkpoint) << name;
    testing::write_file(*files_, path(1) / name, whole);
  }
  EXPECT_TRUE(find_latest_complete(files_, kDirectory).checkpoint);
}

TEST_F(CheckpointTest, EveryTruncationIsFound) {
  save({1});
  for (const std::string& name : files_->list(path(1))) {
    const std::string whole = files_->read(path(1) / name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      testing::write_file(*files_, path(1) / name, whole.substr(0, size));
      const LatestComplete found = find_latest_complete(files_, kDirectory);
      ASSERT_FALSE(found.checkpoint) << name << " of " << size << " bytes";
      ASSERT_EQ(found.broken.size(), 1u);
    }
    testing::write_file(*files_, path(1) / name, whole);
  }
  EXPECT_TRUE(find_latest_complete(files_, kDirectory).checkpoint);
}

// A manifest forged to fit the broken file: then its checksums prove nothing.
TEST_F(CheckpointTest, ATruncationThatAForgedManifestHidesIsFound) {
  save({1});
  Manifest manifest = Checkpoint::open(files_, path(1)).manifest();
  for (ManifestFile& file : manifest.files) {
    const std::string whole = files_->read(path(1) / file.name);
    const Seal seal = file.seal;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::string cut = whole.substr(0, size);
      file.seal = {.bytes = size, .crc32c = io::crc32c(io::as_bytes(cut))};
      testing::write_file(*files_, path(1) / file.name, cut);
      testing::write_file(*files_, path(1) / kManifestName, write_manifest(manifest));
      const auto error = caught([&] {
        const Checkpoint checkpoint = Checkpoint::open(files_, path(1));
        for (const Section section : kSections) checkpoint.tensors(section);
        checkpoint.state();
      });
      ASSERT_EQ(error.code, ErrorCode::kDataLoss) << size << ": " << error.message;
    }
    file.seal = seal;
    testing::write_file(*files_, path(1) / file.name, whole);
  }
}

TEST_F(CheckpointTest, RefusesAFileWhoseTensorsDifferFromTheManifest) {
  save({1});
  Manifest manifest = Checkpoint::open(files_, path(1)).manifest();
  auto& tensors = manifest.tensors[static_cast<std::size_t>(Section::kTensors)];
  tensors["renamed"] = tensors.at("step");
  tensors.erase("step");
  testing::write_file(*files_, path(1) / kManifestName, write_manifest(manifest));
  const Checkpoint checkpoint = Checkpoint::open(files_, path(1));
  EXPECT_EQ(caught([&] { checkpoint.tensors(Section::kTensors); }).code, ErrorCode::kDataLoss);
}

TEST_F(CheckpointTest, FoldersWithOtherNamesAreIgnored) {
  save({1});
  for (const char* name : {"ckpt-", "ckpt-x", "ckpt-01", "ckpt-1-1", "ckpt-1-2-3", "other"}) {
    files_->create_directories(kDirectory / name);
  }
  const LatestComplete found = find_latest_complete(files_, kDirectory);
  EXPECT_EQ(found.checkpoint->step(), 1);
  EXPECT_TRUE(found.broken.empty());
}

const io::Path kGolden = io::Path(BRIGADE_CHECKPOINT_TEST_DATA) / "checkpoint-v1";

TEST(GoldenCheckpoint, VersionOneLoads) {
  const Checkpoint checkpoint = Checkpoint::open(io::posix_file_system(), kGolden);
  checkpoint.verify();
  EXPECT_EQ(checkpoint.step(), 120);
  EXPECT_EQ(checkpoint.state(), sample(120).state);
  EXPECT_EQ(checkpoint.metrics(), sample(120).metrics);
  for (const NamedTensor& each : sample(120).tensors) {
    EXPECT_TRUE(at::equal(checkpoint.tensor(each.name, Section::kTensors), each.tensor));
  }
  EXPECT_TRUE(at::equal(checkpoint.tensor("conv1/weights"), at::full({2, 2}, 1.5)));
}

void save_golden(std::shared_ptr<io::FileSystem> files, const io::Path& directory) {
  const auto clock = std::make_shared<base::ManualClock>();
  clock->advance(std::chrono::milliseconds(1'700'000'000'000));
  Saver saver(std::move(files), {.directory = directory}, clock);
  Contents contents = sample(120);
  variables::VariableStore store(std::vector<c10::Device>{c10::Device(c10::kCPU)},
                                 variables::StorageSharing::kOneStorage);
  contents.variables = {store.create({.name = "conv1/weights", .initial = at::full({2, 2}, 1.5)})};
  saver.save(120, contents);
  saver.close();
}

// Other programs read these bytes: the Python tests of the reader read the same files that are
// written here.
TEST(GoldenCheckpoint, EqualsNewlyWrittenFiles) {
  const auto files = std::make_shared<io::MemoryFileSystem>();
  save_golden(files, "/run");
  const auto disk = io::posix_file_system();
  ASSERT_EQ(files->list("/run/ckpt-120"), disk->list(kGolden));
  for (const std::string& name : disk->list(kGolden)) {
    EXPECT_EQ(files->read(io::Path("/run/ckpt-120") / name), disk->read(kGolden / name)) << name;
  }
}

// Creates the golden files; run once for each new version of the format.
TEST(GoldenCheckpoint, Write) {
  if (!base::environment("BRIGADE_WRITE_GOLDEN")) {
    GTEST_SKIP()
        << "writes new golden files; set BRIGADE_WRITE_GOLDEN for a new version of the format";
  }
  save_golden(io::posix_file_system(), ::testing::TempDir() + "brigade-golden");
}

}  // namespace
}  // namespace brigade::checkpoint
