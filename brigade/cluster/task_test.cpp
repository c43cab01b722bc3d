#include "brigade/cluster/task.h"

#include <gtest/gtest.h>

#include "brigade/base/error.h"

namespace brigade::cluster {
namespace {

TEST(Task, ReadsWhatItWrites) {
  const Task task{"evaluator", 12};
  EXPECT_EQ(to_string(task), "/job:evaluator/task:12");
  EXPECT_EQ(parse_task(to_string(task)), task);
}

TEST(Task, RefusesEveryOtherFormAndQuotesIt) {
  for (const char* text :
       {"", "worker:1", "/job:/task:1", "/job:worker/task:", "/job:worker/task:-1",
        "/job:worker/task:+1", "/job:worker/task:1x", "/job:worker/task:99999999999",
        "/job:worker/replica:0/task:1", "/job:worker"}) {
    try {
      parse_task(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(std::string(error.what()),
                "'" + std::string(text) + "' names no task; write it as /job:worker/task:1.");
    }
  }
}

TEST(Task, ChiefComesBeforeWorkersAndWorkersByIndex) {
  EXPECT_LT((Task{"chief", 0}), (Task{"worker", 0}));
  EXPECT_LT((Task{"worker", 2}), (Task{"worker", 10}));
}

}  // namespace
}  // namespace brigade::cluster
