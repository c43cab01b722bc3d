#include "brigade/train/graph/graph_writer.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "brigade/base/strings.h"
#include "brigade/distribute/testing/fixtures.h"
#include "brigade/io/testing/memory_file_system.h"
#include "brigade/summary/event_file_reader.h"
#include "brigade/train/callbacks/tensor_board.h"
#include "brigade/train/hooks/profiler_hook.h"
#include "brigade/train/session/session.h"
#include "brigade/train/testing/tiny_model.h"
#include "brigade/train/testing/toy_training.h"

namespace brigade::train {
namespace {

/// All events of one kind in the event files of a directory.
template <class Content>
std::vector<Content> contents(const io::FileSystem& files, const io::Path& folder) {
  std::vector<Content> found;
  for (const io::Path& path : summary::event_files(files, folder)) {
    summary::EventFileReader reader(files, path);
    while (const auto event = reader.next()) {
      if (const auto* content = std::get_if<Content>(&event->content)) found.push_back(*content);
    }
  }
  return found;
}

/// A session of four steps of two replicas that writes summaries to /run.
class GraphOfSession : public testing::Test {
 protected:
  void run(const std::vector<HookPtr>& hooks = {}) {
    MonitoredTrainingSession session(training_.state, {.hooks = hooks, .summary_dir = "/run"},
                                     {.files = files_});
    for (int step = 0; step < 4; ++step) session.run([&] { return training_.step(); });
    session.close();
  }

  const std::shared_ptr<io::MemoryFileSystem> files_ = std::make_shared<io::MemoryFileSystem>();
  distribute::MirroredStrategy strategy_{distribute::cpus(2)};
  ToyTraining training_{strategy_};
};

TEST_F(GraphOfSession, IsWrittenOnceWithEveryReplica) {
  run();
  const auto graphs = contents<summary::GraphContent>(*files_, "/run");
  ASSERT_EQ(graphs.size(), 1u);
  const auto nodes = summary::decode_graph(graphs[0].bytes);
  for (const char* name : {"hidden", "out", "mean/replica_1", "inputs", "Relu", "replica_1/Relu"}) {
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node.name == name;
    })) << name;
  }
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST_F(GraphOfSession, HasTheTimesOfAProfiledStep) {
  run({ProfilerHook{.directory = "/profile", .steps = StepRange{2, 3}}});
  const auto times = contents<summary::RunMetadataContent>(*files_, "/run");
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].tag, "step_3");
  for (const char* text : {"/device:CPU:1", "replica_1/Relu"})
    EXPECT_NE(times[0].bytes.find(text), std::string::npos) << text;
  const std::string trace = files_->read("/profile/timeline-3.json");
  for (const char* text :
       {"\"aten::relu\"", "\"ReluBackward0\"", "\"replica 1\"", "\"operations\""})
    EXPECT_NE(trace.find(text), std::string::npos) << text;
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
}

TEST(TensorBoard, WritesTheGraphUnlessDisabled) {
  for (const bool writes : {true, false}) {
    const auto folder = std::filesystem::temp_directory_path() /
                        base::str_cat("brigade_graph_", std::int64_t{::getpid()});
    ScriptedFit("val_loss", {0.5, 0.25})
        .run({TensorBoard{.log_dir = folder, .write_graph = writes}});
    const auto graphs = contents<summary::GraphContent>(*io::posix_file_system(), folder / "train");
    std::filesystem::remove_all(folder);
    ASSERT_EQ(graphs.size(), writes ? 1u : 0u);
    if (graphs.empty()) continue;
    const auto nodes = summary::decode_graph(graphs[0].bytes);
    EXPECT_EQ(nodes.front().name, "line/kernel");
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                            [](const auto& node) { return node.name == "line/Addmm"; }));
  }
}

}  // namespace
}  // namespace brigade::train
