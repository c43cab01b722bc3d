#include "brigade/runs/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "brigade/base/testing/error_code.h"
#include "brigade/base/testing/manual_clock.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/summary_writer.h"

namespace brigade::runs {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kRunJson = R"({
  "format": 1, "total_steps": 40, "machine": {"host": "a", "memory_bytes": 1024},
  "configuration": {"model": "mlp", "devices": ["cpu:0", "cpu:1"], "workers": 1, "global_batch_size": 32,
                    "accumulate": 2, "momentum": 0.9, "controller": null},
  "result": {"steps": 40, "step_shares": [{"input": 0.25, "compute": 0.75}], "interrupted": true}})";

class RunRecordTest : public testing::Test {
 protected:
  void write(const io::Path& path, std::string_view text) {
    files_->create_directories(path.parent_path());
    files_->create(path, io::CreateMode::kTruncate)->write(io::as_bytes(text));
  }
  void write_loss() {
    summary::SummaryWriter writer(files_, "/runs/first", clock_);
    writer.session_start(1);
    writer.scalar("loss", 0.5, 10);
    writer.close();
  }

  base::ManualClock clock_;
  std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
};

TEST_F(RunRecordTest, HasWhatTheTrainingWrote) {
  write("/runs/first/run.json", kRunJson);
  write_loss();
  const RunRecord run = RunReader(files_, "/runs/first").read();
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.state, RunState::kInterrupted);
  EXPECT_EQ(run.total_steps, 40);
  EXPECT_EQ(run.examples_per_step, 64);
  EXPECT_THAT(run.devices, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(fact(run.configuration, "momentum"), "0.9");
  EXPECT_EQ(fact(run.configuration, "controller"), "-");
  EXPECT_EQ(fact(run.configuration, "devices"), "cpu:0, cpu:1");
  EXPECT_EQ(fact(run.machine, "host"), "a");
  ASSERT_EQ(run.step_fractions.size(), 1u);
  EXPECT_THAT(run.step_fractions[0], Contains(std::pair<std::string, double>("compute", 0.75)));
  ASSERT_EQ(run.training.size(), 1u);
  EXPECT_EQ(run.training[0].points.front().step, 10);
  EXPECT_EQ(run.starts.size(), 1u);
  EXPECT_THAT(run.missing, IsEmpty());
}

TEST_F(RunRecordTest, SaysWhatIsMissing) {
  write_loss();
  const RunRecord run = RunReader(files_, "/runs/first/").read();
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.state, RunState::kUnknown);
  EXPECT_THAT(run.missing, ElementsAre(HasSubstr("no run.json")));
}

TEST_F(RunRecordTest, SaysWhatIsBroken) {
  write("/runs/first/run.json", "{\"configuration\": {");
  write("/runs/first/checkpoints/ckpt-20/manifest.json", "{}");
  const RunRecord run = RunReader(files_, "/runs/first").read();
  EXPECT_THAT(run.missing, Contains(HasSubstr("is not a valid run.json")));
  EXPECT_THAT(run.missing, Contains(HasSubstr("no values in event files")));
  ASSERT_EQ(run.checkpoints.size(), 1u);
  EXPECT_EQ(run.checkpoints[0].step, 20);
  EXPECT_FALSE(run.checkpoints[0].problem.empty());
}

TEST_F(RunRecordTest, AcceptsAnyValuesInARunJson) {
  write("/runs/first/run.json",
        R"({"configuration": [1], "result": {"step_shares": [3, {"input": "x"}], "evaluations": 5},
            "machine": "none", "total_steps": 1.5})");
  const RunRecord run = RunReader(files_, "/runs/first").read();
  EXPECT_EQ(run.state, RunState::kFinished);
  EXPECT_EQ(run.total_steps, std::nullopt);
  EXPECT_THAT(run.configuration, IsEmpty());
}

TEST_F(RunRecordTest, ShowsHostileNamesAsText) {
  write("/runs/first/run.json",
        "{\"configuration\": {\"model\": \"\\u202egnp\\u001b[2J\"}, \"result\": null}");
  const RunRecord run = RunReader(files_, "/runs/first").read();
  EXPECT_EQ(fact(run.configuration, "model"), "\\u202egnp\\x1b[2J");
  EXPECT_EQ(run.state, RunState::kBroken);
}

TEST_F(RunRecordTest, RefusesAFolderThatIsNoRun) {
  write("/runs/notes.txt", "");
  EXPECT_EQ(base::testing::code_of([&] { RunReader(files_, "/runs").read(); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(base::testing::code_of([&] { RunReader(files_, "/absent").read(); }),
            ErrorCode::kNotFound);
  EXPECT_EQ(base::testing::code_of([&] { RunReader(files_, "/runs/notes.txt").read(); }),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace brigade::runs
