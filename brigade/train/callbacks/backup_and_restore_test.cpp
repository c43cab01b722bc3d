#include "brigade/train/callbacks/checkpoint_callbacks.h"

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "brigade/checkpoint/checkpoint.h"
#include "brigade/distribute/testing/worker_threads.h"
#include "brigade/train/callbacks/callback.h"
#include "brigade/train/hooks/stop_hooks.h"
#include "brigade/train/testing/small_session.h"
#include "brigade/train/testing/tiny_model.h"

namespace brigade::train {
namespace {

/// A temporary directory, removed at the end of the test.
class BackupDirectory {
 public:
  BackupDirectory() : path_(std::filesystem::temp_directory_path() / "brigade_backup_XXXXXX") {
    std::string name = path_.string();
    path_ = ::mkdtemp(name.data());
  }
  ~BackupDirectory() { std::filesystem::remove_all(path_); }
  io::Path backup() const { return path_ / "backup"; }

 private:
  std::filesystem::path path_;
};

/// A process: a model that fits 20 examples in batches of 4, shuffled, for 4 epochs.
struct FitProcess {
  FitProcess() : strategy(distribute::cpus(2)), model(strategy, line()) {
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
  }

  History fit(std::vector<CallbackPtr> callbacks, SessionOptions session = quiet_session()) {
    return model.fit(line_data(20), {.epochs = 4,
                                     .batch_size = 4,
                                     .callbacks = std::move(callbacks),
                                     .verbose = Verbose::kSilent,
                                     .session = std::move(session)});
  }
  std::vector<double> weights() const {
    std::vector<double> values;
    for (const variables::Variable& each : model.variables()) {
      const at::Tensor flat = each.read().flatten().to(at::kDouble);
      for (std::int64_t i = 0; i < flat.numel(); ++i) values.push_back(flat[i].item<double>());
    }
    return values;
  }

  distribute::MirroredStrategy strategy;
  Model model;
};

/// Throws after this number of batches.
LambdaCallback failing_after(int batches) {
  return {.on_train_batch_end = [left = batches](FitContext&) mutable {
    if (--left == 0) throw std::runtime_error("killed");
  }};
}

std::vector<double> weights_of_a_whole_fit() {
  FitProcess whole;
  whole.fit({});
  return whole.weights();
}

/// Fits with `backup`, failing after this number of batches in each process, until a fit completes;
/// returns the number of processes.
int processes_needed(const BackupAndRestore& backup, int batches,
                     const std::vector<double>& expected) {
  const CapturedLog log;
  for (int count = 1; count < 20; ++count) {
    FitProcess process;
    try {
      process.fit({backup, failing_after(batches)});
    } catch (const std::exception&) {
      continue;
    }
    EXPECT_EQ(process.weights(), expected);
    return count;
  }
  ADD_FAILURE() << "the fit never completed";
  return 0;
}

TEST(BackupAndRestore, ResumesAtTheStartOfTheInterruptedEpoch) {
  const BackupDirectory folder;
  const BackupAndRestore backup{.backup_dir = folder.backup()};
  // A process makes 8 of 20 batches: each time one epoch of five batches is saved.
  EXPECT_EQ(processes_needed(backup, 8, weights_of_a_whole_fit()), 4);
  EXPECT_FALSE(std::filesystem::exists(folder.backup())) << "deleted after the fit";
}

TEST(BackupAndRestore, ResumesInTheMiddleOfAnEpoch) {
  const BackupDirectory folder;
  const BackupAndRestore backup{.backup_dir = folder.backup(), .every_batches = 3};
  // A process makes four batches, of which three are saved.
  EXPECT_EQ(processes_needed(backup, 4, weights_of_a_whole_fit()), 7);
}

TEST(BackupAndRestore, KeepsTheBackupIfConfigured) {
  const BackupDirectory folder;
  FitProcess process;
  process.fit({BackupAndRestore{.backup_dir = folder.backup(), .delete_checkpoint = false}});
  EXPECT_FALSE(checkpoint::checkpoint_paths(*io::posix_file_system(), folder.backup()).empty());
}

TEST(BackupAndRestore, KeepsTheStateOfAnInterruptedFit) {
  const BackupDirectory folder;
  const CapturedLog log;
  SessionOptions session = quiet_session();
  session.hooks = {StopAtStepHook{.last_step = 7}};
  const BackupAndRestore backup{.backup_dir = folder.backup()};
  FitProcess interrupted;
  interrupted.fit({backup}, session);
  const auto latest =
      checkpoint::find_latest_complete(io::posix_file_system(), folder.backup()).checkpoint;
  ASSERT_TRUE(latest.has_value());
  EXPECT_EQ(latest->step(), 7);
  FitProcess process;
  const History history = process.fit({backup});
  EXPECT_EQ(history.epochs.front(), 1);
  EXPECT_EQ(process.weights(), weights_of_a_whole_fit());
}

TEST(BackupAndRestore, DoesNotDeleteThroughSymlinks) {
  const BackupDirectory folder;
  FitProcess first;
  first.fit(
      {BackupAndRestore{.backup_dir = folder.backup(), .delete_checkpoint = false}.callback()});
  const io::Path newest = *checkpoint::latest_checkpoint(*io::posix_file_system(), folder.backup());
  const io::Path elsewhere = folder.backup().parent_path() / "elsewhere";
  std::filesystem::rename(newest, elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, newest);
  FitProcess second;
  second.fit({BackupAndRestore{.backup_dir = folder.backup()}.callback()});
  EXPECT_NO_THROW(checkpoint::Checkpoint::open(io::posix_file_system(), elsewhere).verify());
  EXPECT_TRUE(std::filesystem::is_symlink(newest));
}

TEST(BackupAndRestore, RefusesInvalidArguments) {
  EXPECT_THROW(BackupAndRestore{}.callback(), Error);
  EXPECT_THROW((BackupAndRestore{.backup_dir = "/x", .every_batches = 0}.callback()), Error);
  const BackupDirectory folder;
  FitProcess process;
  SessionOptions session = quiet_session();
  session.resume_from = folder.backup();
  EXPECT_THROW(process.fit({BackupAndRestore{.backup_dir = folder.backup()}}, session), Error);
}

TEST(LambdaCallback, CallsItsFunctions) {
  FitProcess process;
  std::string calls;
  const auto record = [&](const char* name) {
    return [&calls, name](FitContext&) { calls += name; };
  };
  process.model.fit(line_data(8), {.epochs = 1,
                                   .batch_size = 4,
                                   .validation_data = line_data(4),
                                   .callbacks = {LambdaCallback{.on_epoch_begin = record("E"),
                                                                .on_epoch_end = record("e"),
                                                                .on_train_begin = record("T"),
                                                                .on_train_end = record("t"),
                                                                .on_train_batch_begin = record("B"),
                                                                .on_train_batch_end = record("b"),
                                                                .on_test_begin = record("V"),
                                                                .on_test_end = record("v")},
                                                 LambdaCallback{}},
                                   .verbose = Verbose::kSilent});
  EXPECT_EQ(calls, "TEBbBbVvet");
}

/// Two workers that fit like `FitProcess`, and fail after this number of batches, if set; returns
/// the chief's weights.
std::vector<double> fit_of_workers(const io::Path& folder, checkpoint::Writers writers,
                                   std::optional<int> batches) {
  std::vector<double> weights;
  distribute::run_workers({1, 1}, [&](distribute::MultiWorkerMirroredStrategy& strategy) {
    Model model(strategy, line());
    model.compile({.optimizer = optim::Sgd{.learning_rate = 0.1}, .loss = "mse"});
    std::vector<CallbackPtr> callbacks = {
        BackupAndRestore{.backup_dir = folder / "backup", .every_batches = 2, .writers = writers},
        ModelCheckpoint{.directory = folder / "epochs", .keep_last = 0, .writers = writers}};
    if (batches) callbacks.push_back(failing_after(*batches));
    model.fit(line_data(20), {.epochs = 4,
                              .batch_size = 4,
                              .callbacks = callbacks,
                              .verbose = Verbose::kSilent,
                              .session = quiet_session()});
    if (!strategy.is_chief()) return;
    for (const variables::Variable& each : model.variables()) {
      const at::Tensor flat = each.read().flatten().to(at::kDouble);
      for (std::int64_t i = 0; i < flat.numel(); ++i) weights.push_back(flat[i].item<double>());
    }
  });
  return weights;
}

TEST(BackupAndRestore, WorksWithSeveralWorkers) {
  const CapturedLog log;
  const BackupDirectory whole;
  const auto expected = fit_of_workers(whole.backup(), checkpoint::Writers::kChief, std::nullopt);
  for (const auto writers : {checkpoint::Writers::kChief, checkpoint::Writers::kAllWorkers}) {
    const BackupDirectory folder;
    EXPECT_ANY_THROW(fit_of_workers(folder.backup(), writers, 7));
    const auto files = io::posix_file_system();
    ASSERT_TRUE(checkpoint::find_latest_complete(files, folder.backup() / "backup").checkpoint);
    EXPECT_EQ(fit_of_workers(folder.backup(), writers, std::nullopt), expected);
    EXPECT_FALSE(files->exists(folder.backup() / "backup"));
    const auto epochs = checkpoint::checkpoint_paths(*files, folder.backup() / "epochs");
    ASSERT_EQ(epochs.size(), 4u);
    const bool is_of_all = writers == checkpoint::Writers::kAllWorkers;
    EXPECT_EQ(files->exists(epochs.back() / "variables-00002-of-00002.safetensors"), is_of_all);
  }
}

}  // namespace
}  // namespace brigade::train
