#include "brigade/ps/client/worker_variables.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "brigade/ps/testing/small_job.h"

namespace brigade::ps {
namespace {

using testing::small_model;
using testing::small_placement;

TEST(WorkerVariables, FormsAreThoseOfTheCreationsOrOfTheFirstPull) {
  const PlacedVariables placed(small_placement(1), 1);
  const WorkerVariables created(placed, small_model());
  WorkerVariables pulled{placed};
  EXPECT_TRUE(created.has_forms());
  EXPECT_FALSE(pulled.has_forms());
  const std::vector<std::size_t> all = pulled.wholes_of(0);
  EXPECT_EQ(all.size(), small_model().size());
  EXPECT_EQ(pulled.value_bytes(all), 0u);
  EXPECT_EQ(pulled.value_bytes_of_rows(0, 2), 0u);

  std::vector<Parameter::Reading> values;
  for (const Creation& each : small_model()) values.push_back({.value = each.value});
  pulled.learn_forms(values);
  ASSERT_TRUE(pulled.has_forms());
  for (std::size_t i = 0; i < pulled.size(); ++i) EXPECT_EQ(pulled.form(i), created.form(i)) << i;
  EXPECT_EQ(pulled.value_bytes(all), (6 + 3 + 1 + 1 + 4) * 8u);
  EXPECT_EQ(pulled.value_bytes_of_rows(0, 2), 2 * 3 * 8u) << "of [2, 3]";
}

TEST(WorkerVariables, AVariableThatIsPulledByRowsKeepsItsForm) {
  WorkerVariables variables(PlacedVariables(small_placement(1), 1), small_model());
  variables.pull_by_rows(0);
  const std::vector<std::size_t> wholes = variables.wholes_of(0);
  EXPECT_EQ(wholes, (std::vector<std::size_t>{1, 2, 3, 4}));
  std::vector<Parameter::Reading> values(variables.size());
  for (const std::size_t i : wholes) values[i].value = small_model()[i].value;
  const TensorForm before = variables.form(0);
  variables.learn_forms(values);
  EXPECT_EQ(variables.form(0), before);
}

}  // namespace
}  // namespace brigade::ps
