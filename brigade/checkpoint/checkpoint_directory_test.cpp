// Only files made by savers are removed. Files of others in a checkpoint directory, and targets of
// links in it, stay.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "brigade/base/log.h"
#include "brigade/checkpoint/checkpoint.h"
#include "brigade/checkpoint/checkpoint_directory.h"
#include "brigade/checkpoint/saver.h"
#include "brigade/checkpoint/testing/sample.h"

namespace brigade::checkpoint {
namespace {

using testing::caught;
using testing::sample;

/// A checkpoint directory on disk, and next to it a foreign folder whose files have the same names.
class CheckpointRemoval : public ::testing::Test {
 protected:
  CheckpointRemoval() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "brigade-removal-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    files_->create_directory(run());
    files_->create_directory(elsewhere());
    for (const char* name : {"manifest.json", "variables-00001-of-00001.safetensors", "precious"})
      testing::write_file(*files_, elsewhere() / name, "mine");
    base::set_log_sink([this](base::LogLevel level, std::string_view text) {
      if (level == base::LogLevel::kWarning) warnings_.emplace_back(text);
    });
  }
  ~CheckpointRemoval() override {
    base::set_log_sink({});
    std::filesystem::remove_all(root_);
  }

  io::Path run() const { return root_ / "run"; }
  io::Path elsewhere() const { return root_ / "elsewhere"; }
  void link(const std::string& name) {
    std::filesystem::create_directory_symlink(elsewhere(), run() / name);
  }
  std::vector<std::string> names() const { return files_->list(run()); }
  void expect_link_is_left(const std::string& name) const {
    EXPECT_TRUE(std::filesystem::is_symlink(run() / name)) << name;
    EXPECT_EQ(files_->list(elsewhere()).size(), 3u) << "what " << name << " points to is gone";
    EXPECT_EQ(warnings_about(name), 1) << name;
  }
  std::ptrdiff_t warnings_about(const std::string& name) const {
    return std::count_if(warnings_.begin(), warnings_.end(), [&](const std::string& each) {
      return each.find("/" + name + " ") != std::string::npos;
    });
  }
  Saver saver(std::size_t keep_last = 1) {
    return {files_, {.directory = run(), .keep_last = keep_last, .writing = Writing::kForeground}};
  }
  std::int64_t newest_step() const {
    const LatestComplete found = find_latest_complete(files_, run());
    return found.checkpoint ? found.checkpoint->step() : -1;
  }

  std::shared_ptr<io::FileSystem> files_ = io::posix_file_system();
  io::Path root_;
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointRemoval, AStaleFolderThatIsALinkStays) {
  for (const char* name : {".ckpt-7.saving", ".ckpt-5.removing", ".ckpt-7.0123456789abcdef.saving"})
    link(name);
  Saver under_test = saver();
  under_test.save(8, sample(8));
  for (const char* name : {".ckpt-7.saving", ".ckpt-5.removing", ".ckpt-7.0123456789abcdef.saving"})
    expect_link_is_left(name);
}

TEST_F(CheckpointRemoval, ASaveDoesNotWriteThroughALink) {
  Saver under_test = saver();
  link(".ckpt-8.saving");
  under_test.save(8, sample(8));
  EXPECT_EQ(newest_step(), 8);
  expect_link_is_left(".ckpt-8.saving");
}

TEST_F(CheckpointRemoval, ARemovalDoesNotFollowALink) {
  Saver under_test = saver();
  under_test.save(1, sample(1));
  link(".ckpt-1.removing");
  under_test.save(2, sample(2));
  EXPECT_FALSE(files_->exists(run() / "ckpt-1"));
  expect_link_is_left(".ckpt-1.removing");
}

TEST_F(CheckpointRemoval, ALinkedCheckpointIsIgnoredByRetentionAndStays) {
  {
    Saver first = saver(0);
    first.save(1, sample(1));
  }
  std::filesystem::rename(run() / "ckpt-1", root_ / "moved");
  std::filesystem::create_directory_symlink(root_ / "moved", run() / "ckpt-1");
  Saver under_test = saver();
  for (const std::int64_t step : {2, 3, 4}) under_test.save(step, sample(step));
  EXPECT_TRUE(std::filesystem::is_symlink(run() / "ckpt-1"));
  EXPECT_NO_THROW(Checkpoint::open(files_, root_ / "moved").verify());
  EXPECT_EQ(warnings_about("ckpt-1"), 1);
  EXPECT_EQ(newest_step(), 4);
}

TEST_F(CheckpointRemoval, FilesOfOthersInACheckpointStay) {
  Saver under_test = saver();
  under_test.save(1, sample(1));
  testing::write_file(*files_, run() / "ckpt-1" / "notes.txt", "mine");
  link("ckpt-1/state-00001-of-00002.safetensors");
  under_test.save(2, sample(2));
  EXPECT_EQ(files_->list(run() / ".ckpt-1.removing"),
            (std::vector<std::string>{"notes.txt", "state-00001-of-00002.safetensors"}));
  EXPECT_EQ(files_->list(elsewhere()).size(), 3u);
  EXPECT_EQ(warnings_about(".ckpt-1.removing"), 1);
  under_test.save(1, sample(1));
  under_test.save(3, sample(3));
  EXPECT_EQ(newest_step(), 3);
  EXPECT_TRUE(files_->exists(run() / ".ckpt-1.removing" / "notes.txt"));
}

TEST_F(CheckpointRemoval, OnlyNamesWrittenBySaversAreRemoved) {
  for (const char* name :
       {"manifest.json", "variables-00001-of-00002.safetensors",
        "tensors-00003-of-00003.safetensors", "state-00001-of-00001.safetensors"})
    EXPECT_TRUE(is_checkpoint_file(name)) << name;
  for (const char* name : {"manifest.json.old", "weights.safetensors", "variables.safetensors",
                           "variables-1-of-.safetensors", "xvariables-00001-of-00002.safetensors",
                           "state-00001-of-00001.safetensors.bak", ""})
    EXPECT_FALSE(is_checkpoint_file(name)) << name;
}

TEST_F(CheckpointRemoval, FoldersThatOnlyLookTemporaryStay) {
  for (const char* name :
       {".ckpt-mine", ".ckpt-7.saving.old", ".ckpt-.saving", ".ckpt-7x.removing"})
    files_->create_directory(run() / name);
  files_->create_directory(run() / ".ckpt-7-2.removing");
  files_->create_directory(run() / ".ckpt-8.2.saving");
  remove_unfinished_saves(*files_, run());
  EXPECT_EQ(names(), (std::vector<std::string>{".ckpt-.saving", ".ckpt-7.saving.old",
                                               ".ckpt-7x.removing", ".ckpt-mine"}));
}

TEST_F(CheckpointRemoval, ABrokenCheckpointIsSetAsideForever) {
  for (int time = 0; time < 2; ++time) {
    Saver under_test = saver();
    under_test.save(5, sample(5));
    testing::write_file(*files_, run() / "ckpt-5" / "manifest.json", "{");
    under_test.set_aside({run() / "ckpt-5"});
    EXPECT_TRUE(under_test.checkpoints().empty());
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"ckpt-5.broken", "ckpt-5.broken-2", "latest"}));
  Saver under_test = saver();
  for (const std::int64_t step : {5, 6}) under_test.save(step, sample(step));
  EXPECT_EQ(newest_step(), 6);
  EXPECT_TRUE(files_->exists(run() / "ckpt-5.broken" / "tensors-00001-of-00001.safetensors"));
}

TEST_F(CheckpointRemoval, ClearingRemovesWhatSaversMade) {
  {
    Saver first = saver(0);
    for (const std::int64_t step : {1, 2, 3}) first.save(step, sample(step));
  }
  testing::write_file(*files_, run() / "ckpt-2" / "manifest.json", "{");
  link("ckpt-9");
  testing::write_file(*files_, run() / "notes.txt", "mine");
  clear_directory(*files_, run());
  EXPECT_EQ(names(), (std::vector<std::string>{"ckpt-2.broken", "ckpt-9", "notes.txt"}));
  EXPECT_EQ(files_->list(elsewhere()).size(), 3u);
}

TEST_F(CheckpointRemoval, AClearedDirectoryThatIsEmptyIsRemoved) {
  {
    Saver first = saver();
    first.save(1, sample(1));
  }
  clear_directory(*files_, run());
  EXPECT_FALSE(files_->exists(run()));
  clear_directory(*files_, run());
}

TEST_F(CheckpointRemoval, AMissingDirectoryIsNotCreatedAgain) {
  using Hurt = std::function<void()>;
  const std::vector<Hurt> hurts = {
      [&] { std::filesystem::remove_all(run()); },
      [&] { std::filesystem::rename(run(), root_ / "renamed"); },
      [&] {
        std::filesystem::remove_all(run());
        std::filesystem::create_directory(run());
      },
  };
  for (std::size_t i = 0; i < hurts.size(); ++i) {
    for (const Writing writing : {Writing::kBackground, Writing::kForeground}) {
      std::filesystem::remove_all(run());
      std::filesystem::remove_all(root_ / "renamed");
      Saver under_test(files_, {.directory = run(), .writing = writing});
      under_test.save(1, sample(1));
      under_test.wait();
      hurts[i]();
      const auto found = caught([&] { under_test.save(2, sample(2)); });
      EXPECT_EQ(found.code, ErrorCode::kFailedPrecondition) << i;
      EXPECT_NE(found.message.find(run().string()), std::string::npos) << found.message;
      const bool is_empty = !files_->exists(run()) || files_->list(run()).empty();
      EXPECT_TRUE(is_empty) << i;
      EXPECT_FALSE(files_->exists(root_ / "renamed" / "ckpt-2")) << i;
    }
  }
}

TEST_F(CheckpointRemoval, SavingContinuesInARestoredDirectory) {
  Saver under_test = saver();
  under_test.save(1, sample(1));
  std::filesystem::rename(run(), root_ / "renamed");
  EXPECT_EQ(caught([&] { under_test.save(2, sample(2)); }).code, ErrorCode::kFailedPrecondition);
  std::filesystem::rename(root_ / "renamed", run());
  under_test.save(2, sample(2));
  EXPECT_EQ(newest_step(), 2);
}

TEST_F(CheckpointRemoval, OnSavedIsCalledForEachSave) {
  std::vector<std::int64_t> saved;
  Saver under_test(files_, {.directory = run(), .on_saved = [&](std::int64_t step) {
                              EXPECT_EQ(newest_step(), step) << "it exists already";
                              saved.push_back(step);
                            }});
  under_test.save(1, sample(1));
  under_test.save(4, sample(4));
  under_test.close();
  EXPECT_EQ(saved, (std::vector<std::int64_t>{1, 4}));
}

}  // namespace

}  // namespace brigade::checkpoint
